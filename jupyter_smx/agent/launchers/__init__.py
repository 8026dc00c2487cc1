"""What starts one script on several hosts: torchrun, Open MPI, Spark."""
