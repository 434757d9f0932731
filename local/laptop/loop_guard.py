"""Stops functions that invoke themselves through a queue, as Lambda does.

After about 16 runs in a chain of messages, Lambda does not start the function again, unless its RecursiveLoop is Allow.
The message stays in its queue until it is a dead letter. A function sends the length of its chain in a header of each
request. ministack loses it with an SQS message, so this module stores it in the message.
https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from ministack.core import lambda_runtime  # type: ignore[import-untyped]
from ministack.services import lambda_svc, sqs  # type: ignore[import-untyped]

CHAIN_HEADER = lambda_runtime.INVOKE_DEPTH_HEADER.lower()
"""The header of a function's requests with the number of invocations in its chain."""
CHAIN_ATTRIBUTE = "InvocationsInChain"
"""The attribute of a message that stores this number of invocations. Consumers do not get the attribute."""
_sent_in_chain: ContextVar[int] = ContextVar("sent_in_chain", default=0)


def remember_chain(headers: Mapping[str, str]) -> None:
    """Read the chain length from the current request's headers (by lower-case name), to store it in sent messages."""
    chain = headers.get(CHAIN_HEADER, "")
    _sent_in_chain.set(int(chain) if chain.isdecimal() else 0)


def stop_loops() -> None:
    """Make ministack count invocations through SQS, too, and stop a chain that is too long."""
    build, run = sqs._build_send_sys_attrs, lambda_svc._run_sqs_batch

    def build_with_chain(*arguments: Any) -> dict[str, Any]:
        return {**build(*arguments), CHAIN_ATTRIBUTE: _sent_in_chain.get()}

    def run_unless_loop(mapping: Any, function: Mapping[str, Any], event: Any, batch: Any, *rest: Any) -> None:
        chain = 1 + max(message["sys"].get(CHAIN_ATTRIBUTE, 0) for message in batch)
        if lambda_svc._recursive_loop_drop(mapping["FunctionName"], function, chain) is None:
            token = lambda_svc._invoke_depth.set(chain)
            try:
                run(mapping, function, event, batch, *rest)
            finally:
                lambda_svc._invoke_depth.reset(token)

    sqs._build_send_sys_attrs, lambda_svc._run_sqs_batch = build_with_chain, run_unless_loop
