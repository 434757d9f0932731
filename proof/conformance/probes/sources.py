"""The pages of AWS's documentation that the probes link to, and what others recorded on AWS."""

from proof.conformance.probes.kinds import Recording

_DOCS = "https://docs.aws.amazon.com"
_LAMBDA = f"{_DOCS}/lambda/latest/dg"
_DYNAMODB = f"{_DOCS}/amazondynamodb/latest"
_SQS = f"{_DOCS}/AWSSimpleQueueService/latest/SQSDeveloperGuide"

MAPPING = f"{_LAMBDA}/invocation-eventsourcemapping.html"
DYNAMODB_MAPPING = f"{_LAMBDA}/with-ddb.html"
PARAMETERS = f"{_LAMBDA}/services-ddb-params.html"
MAPPING_API = f"{_DOCS}/lambda/latest/api/API_CreateEventSourceMapping.html"
ERRORS = f"{_LAMBDA}/services-dynamodb-errors.html"
PARTIAL_RESPONSES = f"{_LAMBDA}/services-ddb-batchfailurereporting.html"
FILTERS = f"{_LAMBDA}/invocation-eventfiltering.html"
DYNAMODB_FILTERS = f"{_LAMBDA}/with-ddb-filtering.html"
DYNAMODB_TUTORIAL = f"{_LAMBDA}/with-ddb-example.html"
CDK_FILTER_RULES = f"{_DOCS}/cdk/api/v2/docs/aws-cdk-lib.aws_lambda.FilterRule.html"
FILTER_TUTORIAL = f"{_DYNAMODB}/developerguide/Streams.Lambda.Tutorial2.html"
RECURSION = f"{_LAMBDA}/invocation-recursion.html"
SQS_MAPPING = f"{_LAMBDA}/services-sqs-errorhandling.html"

STREAMS = f"{_DYNAMODB}/developerguide/Streams.html"
STREAM_RECORD = f"{_DYNAMODB}/APIReference/API_streams_StreamRecord.html"
TTL = f"{_DYNAMODB}/developerguide/TTL.html"
TTL_STREAMS = f"{_DYNAMODB}/developerguide/time-to-live-ttl-streams.html"
EXPIRED_ITEMS = f"{_DYNAMODB}/developerguide/ttl-expired-items.html"
TRANSACTIONS = f"{_DYNAMODB}/developerguide/transaction-apis.html"
TRANSACT_WRITE = f"{_DYNAMODB}/APIReference/API_TransactWriteItems.html"
CANCELLATION = f"{_DYNAMODB}/APIReference/API_CancellationReason.html"
UNITS = f"{_DYNAMODB}/developerguide/read-write-operations.html"
INDEXES = f"{_DYNAMODB}/developerguide/GSI.html"
BATCH_GET = f"{_DYNAMODB}/APIReference/API_BatchGetItem.html"
BATCH_WRITE = f"{_DYNAMODB}/APIReference/API_BatchWriteItem.html"
PUT_ITEM = f"{_DYNAMODB}/APIReference/API_PutItem.html"
DYNAMODB_LIMITS = f"{_DYNAMODB}/developerguide/Constraints.html"

PUT_EVENTS = f"{_DOCS}/eventbridge/latest/APIReference/API_PutEvents.html"
FAILED_ENTRIES = f"{_DOCS}/eventbridge/latest/userguide/eb-putevents.html"
ENTRY_RESULT = f"{_DOCS}/eventbridge/latest/APIReference/API_PutEventsResultEntry.html"
EVENT_PATTERNS = f"{_DOCS}/eventbridge/latest/userguide/eb-event-patterns.html"

VISIBILITY = f"{_SQS}/sqs-visibility-timeout.html"
CHANGE_VISIBILITY = f"{_DOCS}/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html"
DEAD_LETTERS = f"{_SQS}/sqs-dead-letter-queues.html"
STANDARD_QUEUES = f"{_SQS}/standard-queues.html"
SEND_BATCH = f"{_DOCS}/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html"
DELETE_MESSAGE = f"{_DOCS}/AWSSimpleQueueService/latest/APIReference/API_DeleteMessage.html"

CONDITIONAL_WRITES = f"{_DOCS}/AmazonS3/latest/userguide/conditional-writes.html"
PUT_OBJECT = f"{_DOCS}/AmazonS3/latest/API/API_PutObject.html"
SUPPRESSION_LIST = f"{_DOCS}/ses/latest/dg/sending-email-suppression-list.html"
GET_SUPPRESSED = f"{_DOCS}/ses/latest/APIReference-V2/API_GetSuppressedDestination.html"
SEND_EMAIL = f"{_DOCS}/ses/latest/APIReference-V2/API_SendEmail.html"
CREATE_GROUP = f"{_DOCS}/cognito-user-identity-pools/latest/APIReference/API_CreateGroup.html"
JWT_AUTHORIZER = f"{_DOCS}/apigateway/latest/developerguide/http-api-jwt-authorizer.html"

_GITHUB = "https://github.com"
_LOCALSTACK = f"{_GITHUB}/localstack/localstack/blob/8b9a79f05846835cf4dff63ab7eefdde9df83783/tests/aws/services"
_DYNAMODB_STREAMS = "lambda_/event_source_mapping/test_lambda_integration_dynamodbstreams"


def _localstack(tests: str, line: int, date: str) -> Recording:
    """Return a recording of LocalStack's tests. `line`: where the recording begins in the file of the snapshots."""
    return Recording(url=f"{_LOCALSTACK}/{tests}.snapshot.json#L{line}", date=date)


def _stream_test(line: int) -> Recording:
    """Return a recording of LocalStack's tests of event source mappings for DynamoDB streams."""
    return _localstack(_DYNAMODB_STREAMS, line, "2025-11-25")


BINARY_VALUE = _stream_test(2)
FILTER_OF_EVENT_NAME = _stream_test(571)
FILTER_OF_ABSENCE = _stream_test(1333)
SIZE_OF_RECORD = _stream_test(1508)
REPORTED_FAILURES = _stream_test(2135)
NUMBER_AS_IDENTIFIER = _stream_test(4105)
TOO_OLD_RECORD = _localstack("lambda_/event_source_mapping/test_lambda_integration_kinesis", 3307, "2025-11-25")
DEAD_LETTER = _localstack("sqs/test_sqs", 1215, "2024-04-30")
TIMEOUT = _localstack("lambda_/test_lambda", 208, "2025-11-25")
TOO_LARGE_EVENT = _localstack("events/test_events", 38, "2025-01-08")
EMPTY_DETAIL_TYPE = _localstack("events/test_events", 53, "2025-01-08")
UNVERIFIED_SENDER = Recording(url=f"{_LOCALSTACK}/ses/test_ses.py#L1163", date="2025-09-11")

COURSE = "https://www.w3schools.com/aws/serverless/aws_serverless_errorhandlingforstreambasedevents.php"
STOPPED_LOOP = Recording(
    url=f"{_GITHUB}/Kenichiro-Wada/aws-lambda-recursion-detection/blob/f012046d836276d72739af5cd939ab70448b943b/README.md",
    date="2023-08-05",
)
REPEATED_TRANSACTION = Recording(url=f"{_GITHUB}/paritysuite/dynamodb-conformance/pull/67", date="2026-06-30")
FAILED_CONDITIONS = Recording(
    url=f"{_GITHUB}/paritysuite/dynamodb-conformance/blob/22355dfa43dffba2ad3f932f0da811ddeca19ad8"
    "/tests/tier3/error-messages/transactWriteItems.test.ts",
    date="2026-09-20",
)
TRANSACTION_WITH_INDEXES = Recording(
    url=f"{_GITHUB}/nubo-db/dynoxide/blob/9366d253296810cfbcafde954166e5c091e71068"
    "/tests/transactional_index_consumed_capacity.rs#L157",
    date="2026-08-13",
)
CLAIMS = Recording(url=f"{_GITHUB}/floci-io/floci/commit/498021087f23b316d609814c264a280b17a719c5", date="2026-08-05")
