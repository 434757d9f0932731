"""Facts about S3 and SES. The bucket "$versioned" has versioning, the bucket "$bucket" has not."""

from typing import Any

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Request, ServiceProbe


def _put(body: str, bucket: str = "$bucket", **more: Any) -> Request:
    return Request.of("s3", "put_object", Bucket=bucket, Key="a/b", Body=body, **more)


def _size(size: int, bucket: str = "$bucket") -> Request:
    return Request.of("s3", "head_object", Bucket=bucket, Key="a/b", returns={"ContentLength": size})


def _mail(sender: str, *, to: str = "success@simulator.amazonses.com", headers: Any = (), **expected: Any) -> Request:
    body = {"Subject": {"Data": "Order"}, "Body": {"Text": {"Data": "Thank you"}}}
    if headers:
        body |= {"Headers": headers}
    addresses = {"FromEmailAddress": sender, "Destination": {"ToAddresses": [to]}}
    return Request.of("sesv2", "send_email", **addresses, Content={"Simple": body}, **expected)


SUPPRESSED = "success+probe@simulator.amazonses.com"


def _suppression(operation: str, **more: Any) -> Request:
    return Request.of("sesv2", f"{operation}_suppressed_destination", EmailAddress=SUPPRESSED, **more)


PROBES = (
    ServiceProbe.of(
        "if_none_match_creates_an_object_once",
        "PutObject with If-None-Match * creates an object, and refuses to replace it with PreconditionFailed.",
        _put("one", IfNoneMatch="*"),
        _put("second", IfNoneMatch="*", error="PreconditionFailed"),
        _size(3),
        source=sources.CONDITIONAL_WRITES,
    ),
    ServiceProbe.of(
        "without_condition_an_object_is_replaced",
        "PutObject without a condition replaces an object.",
        _put("one", IfNoneMatch="*"),
        _put("second"),
        _size(6),
        source=sources.PUT_OBJECT,
    ),
    ServiceProbe.of(
        "if_none_match_creates_after_a_deletion",
        "In a bucket with versions, If-None-Match * creates an object whose current version is a delete marker.",
        _put("one", "$versioned", IfNoneMatch="*"),
        _put("one", "$versioned", IfNoneMatch="*", error="PreconditionFailed"),
        Request.of("s3", "delete_object", Bucket="$versioned", Key="a/b"),
        _put("second", "$versioned", IfNoneMatch="*"),
        _size(6, "$versioned"),
        source=sources.CONDITIONAL_WRITES,
    ),
    ServiceProbe.of(
        "if_match_replaces_a_known_object",
        "PutObject with If-Match replaces an object only if it has this ETag.",
        _put("one", saves={"etag": "ETag"}),
        _put("second", IfMatch="$etag"),
        _put("third", IfMatch="$etag", error="PreconditionFailed"),
        _size(6),
        source=sources.CONDITIONAL_WRITES,
    ),
    ServiceProbe.of(
        "a_missing_object_has_an_error_code",
        "GetObject of a missing object fails with NoSuchKey.",
        Request.of("s3", "get_object", Bucket="$bucket", Key="none", error="NoSuchKey"),
        source=sources.CONDITIONAL_WRITES.replace("conditional-writes", "download-objects"),
    ),
    ServiceProbe.of(
        "a_sent_mail_has_an_id",
        "SendEmail of a verified sender answers with a message id.",
        _mail("$sender", returns={"MessageId": "$any"}),
        source=sources.SEND_EMAIL,
    ),
    ServiceProbe.of(
        "an_unverified_sender_is_refused",
        "SendEmail of a sender that is not verified fails with MessageRejected.",
        _mail("nobody@not-verified.example.com", error="MessageRejected"),
        source=sources.SEND_EMAIL,
        open_question=(
            f"[The first version of the API]({sources.UNVERIFIED_SENDER.url}) answers with MessageRejected. "
            "Does the second version, too?"
        ),
    ),
    ServiceProbe.of(
        "a_mail_may_have_the_headers_of_one_click_unsubscribing",
        "SES accepts a mail with the headers List-Unsubscribe and List-Unsubscribe-Post.",
        _mail(
            "$sender",
            headers=[
                {"Name": "List-Unsubscribe", "Value": "<https://shop.example.com/unsubscribe?token=sealed>"},
                {"Name": "List-Unsubscribe-Post", "Value": "List-Unsubscribe=One-Click"},
            ],
            returns={"MessageId": "$any"},
        ),
        source=sources.SEND_EMAIL,
    ),
    ServiceProbe.of(
        "a_mail_to_a_suppressed_address_is_accepted",
        "SES accepts a mail to an address on the account's suppression list.",
        _suppression("put", Reason="BOUNCE"),
        _mail("$sender", to=SUPPRESSED, returns={"MessageId": "$any"}),
        _suppression("delete"),
        source=sources.SUPPRESSION_LIST,
    ),
    ServiceProbe.of(
        "the_suppression_list_says_why_until_an_address_is_removed",
        "GetSuppressedDestination returns the reason and the time, and NotFoundException after the removal.",
        _suppression("put", Reason="COMPLAINT"),
        _suppression(
            "get",
            returns={
                "SuppressedDestination.Reason": "COMPLAINT",
                "SuppressedDestination.LastUpdateTime": "$any",
            },
        ),
        _suppression("delete"),
        _suppression("get", error="NotFoundException"),
        _suppression("delete", error="NotFoundException"),
        source=sources.GET_SUPPRESSED,
    ),
)
