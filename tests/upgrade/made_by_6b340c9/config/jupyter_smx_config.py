"""What an administrator of 6b340c9 could set: each trait of the controller and of both engines."""

import os

c = get_config()
data = os.environ.get("JUPYTER_SMX_DATA_DIR", "")

c.ControllerApp.allowed_engines = ["local", "docker"]
c.ControllerApp.allowed_instance_types = ["local", "lab.small"]
c.ControllerApp.cpus = 2
c.ControllerApp.ended_hosts_kept = 86400.0
c.ControllerApp.environment_limit = 900.0
c.ControllerApp.environments_kept = 5
c.ControllerApp.gpus = 0
c.ControllerApp.grace = 5.0
c.ControllerApp.idle_exit = 300.0
c.ControllerApp.input_hash_limit_mib = 64
c.ControllerApp.installer = "pip"
c.ControllerApp.instance_types = [{"name": "lab.small", "vcpus": 1, "memory_gib": 1}]
c.ControllerApp.instance_types_file = ""
c.ControllerApp.interruption_grace = 30.0
c.ControllerApp.keep_alive_cap = 7200
c.ControllerApp.launch_limit = 240.0
c.ControllerApp.log_size = 2.0
c.ControllerApp.max_hosts = 3
c.ControllerApp.max_jobs_queued = 500
c.ControllerApp.max_jobs_running = 4
c.ControllerApp.max_keep_alive_chain = 604800
c.ControllerApp.max_run_cap = 86400
c.ControllerApp.memory_gib = 4.0
c.ControllerApp.preload_memory_mib = 256
c.ControllerApp.preload_never = ["torch"]
c.ControllerApp.prices = {"local": 0.36, "lab.small": 0.02}
c.ControllerApp.unreachable_limit = 200.0
c.ControllerApp.warm_pool_quota = {"lab.small": 1, "*": 2}

c.LocalEngine.apply_limits = False
c.LocalEngine.data_dir = data
c.LocalEngine.grace = 5.0
c.LocalEngine.hidden_variables = ["LAB_TOKEN"]
c.LocalEngine.interruptions_per_hour = 0.0
c.LocalEngine.isolate = True
c.LocalEngine.launch_timeout = 50.0
c.LocalEngine.release_timeout = 10.0
c.LocalEngine.start_method = "fork"

c.DockerEngine.call_timeout = 10.0
c.DockerEngine.data_dir = data
c.DockerEngine.docker_host = "unix:///run/lab/docker.sock"
c.DockerEngine.grace = 20.0
c.DockerEngine.image = "lab/base:1"
c.DockerEngine.interruptions_per_hour = 0.5
c.DockerEngine.launch_timeout = 45.0
c.DockerEngine.network_isolation = True
c.DockerEngine.pids_limit = 2048
c.DockerEngine.pull = "never"
c.DockerEngine.pull_timeout = 120.0
c.DockerEngine.release_timeout = 15.0
c.DockerEngine.user = "1000:1000"
c.DockerEngine.variables = ["TZ"]
