"""Turn requests of the API into job requests: fields, channels, images, instance types, and the code.

Only ``job_code`` reads code; the others are pure, but for a look at the files of inputs. What happens to a job
afterwards belongs in ``jupyter_smx.aws.sagemaker``.
"""
