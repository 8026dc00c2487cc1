"""What pytest itself gets in this project: limits and second chances of tests, and a check of what they change."""
