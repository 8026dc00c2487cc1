"""Define the exceptions that cells raise for failed jobs, and the hints shown with them."""
