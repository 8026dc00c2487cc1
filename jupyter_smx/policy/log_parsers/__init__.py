"""What a log says of progress and metrics: one file for each dialect, pure, incremental, of constant memory."""
