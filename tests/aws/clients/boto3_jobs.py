"""Training jobs as a user of boto3 creates them: the begin of scripts for tests."""

from __future__ import annotations

CREATE = """
import boto3, io, json, tarfile, time
s3, sm, logs = (boto3.client(name) for name in ("s3", "sagemaker", "logs"))
account = boto3.client("sts").get_caller_identity()["Account"]
bucket = f"sagemaker-{s3.meta.region_name}-{account}"
try:
    s3.head_bucket(Bucket=bucket)
except Exception:
    s3.create_bucket(Bucket=bucket)
def create(name, code, resources={}, **more):
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w:gz") as archive:
        entry = tarfile.TarInfo("train.py")
        entry.size = len(code)
        archive.addfile(entry, io.BytesIO(code.encode()))
    s3.put_object(Bucket=bucket, Key=f"{name}/sourcedir.tar.gz", Body=text.getvalue())
    where = json.dumps(f"s3://{bucket}/{name}/sourcedir.tar.gz")
    hyperparameters = {"sagemaker_program": '"train.py"', "sagemaker_submit_directory": where}
    image = "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-scikit-learn:1.2-1-cpu-py3"
    metrics = [{"Name": "loss", "Regex": "loss=(.*?);"}]
    return sm.create_training_job(
        TrainingJobName=name, RoleArn=f"arn:aws:iam::{account}:role/Smx", HyperParameters=hyperparameters,
        AlgorithmSpecification={"TrainingImage": image, "TrainingInputMode": "File", "MetricDefinitions": metrics},
        OutputDataConfig={"S3OutputPath": f"s3://{bucket}/out"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1, **resources},
        StoppingCondition={"MaxRuntimeInSeconds": 600}, **more)
def end(name):
    sm.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName=name)
    return sm.describe_training_job(TrainingJobName=name)
def error(call, **named):
    try:
        call(**named)
    except Exception as error:
        return [type(error).__name__, error.response["Error"]["Code"], error.response["Error"]["Message"]]
name = f"job-{time.time_ns()}"
"""
