"""Read requests and write answers in the protocols of AWS, by botocore's models of the services.

``models`` loads the models and ``targets`` names the operation of a request. ``operations`` reads its members and
writes its answer, by ``json_form`` and ``query_form``; ``validation`` checks members by their shapes. Shapes
are Any, because botocore has no types.
What an operation does belongs in the service.
"""
