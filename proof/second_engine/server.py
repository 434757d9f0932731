"""The process of LocalEmu: `build/second_engine/bin/python proof/second_engine/server.py`. Imports nothing of ours."""

from localemu.runtime.main import main
from localemu.services.lambda_.invocation.docker_runtime_executor import DockerRuntimeExecutor

# LocalEmu would fetch a Docker image for each function. Our handlers run in processes of their own (order.py).
DockerRuntimeExecutor.prepare_version = classmethod(lambda cls, function_version: None)

if __name__ == "__main__":
    main()
