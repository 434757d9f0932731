from typing import Any

import pytest

from local.event_source_mappings import FilterCriteria, MappingSettings

TEMPLATE = {
    "BatchSize": 50,
    "BisectBatchOnFunctionError": True,
    "DestinationConfig": {"OnFailure": {"Destination": {"Fn::GetAtt": ["Failures", "Arn"]}}},
    "EventSourceArn": {"Fn::GetAtt": ["Table", "StreamArn"]},
    "FilterCriteria": {"Filters": [{"Pattern": '{"eventName": ["INSERT"]}'}]},
    "FunctionName": {"Ref": "Copies"},
    "FunctionResponseTypes": ["ReportBatchItemFailures"],
    "MaximumBatchingWindowInSeconds": 1,
    "MaximumRecordAgeInSeconds": 21_600,
    "MaximumRetryAttempts": 5,
    "ParallelizationFactor": 4,
    "StartingPosition": "TRIM_HORIZON",
    "Tags": [{"Key": "stage", "Value": "dev"}],
}


def from_template(**changes: Any) -> MappingSettings:
    return MappingSettings.from_template(TEMPLATE | changes, resolve=lambda reference: "arn:aws:s3:::failures")


def test_settings_are_read_from_a_synthesized_template() -> None:
    assert from_template() == MappingSettings(
        batch_size=50,
        batching_window_seconds=1,
        parallelization_factor=4,
        max_retry_attempts=5,
        max_record_age_seconds=21_600,
        bisect_on_error=True,
        report_item_failures=True,
        filters=FilterCriteria(('{"eventName": ["INSERT"]}',)),
        starting_position="TRIM_HORIZON",
        on_failure="arn:aws:s3:::failures",
    )


def test_settings_missing_in_the_template_have_the_documented_defaults() -> None:
    settings = MappingSettings.from_template({"StartingPosition": "LATEST"})
    assert settings == MappingSettings(starting_position="LATEST")
    assert (settings.batch_size, settings.batching_window_seconds, settings.parallelization_factor) == (100, 0, 1)
    assert (settings.max_retry_attempts, settings.max_record_age_seconds) == (-1, -1)
    assert (settings.bisect_on_error, settings.report_item_failures, settings.on_failure) == (False, False, None)


def test_a_destination_by_reference_requires_a_resolver() -> None:
    with pytest.raises(ValueError, match="is a reference: pass `resolve`"):
        MappingSettings.from_template(TEMPLATE)
    plain = {"DestinationConfig": {"OnFailure": {"Destination": "arn:aws:s3:::other"}}}
    assert MappingSettings.from_template(TEMPLATE | plain).on_failure == "arn:aws:s3:::other"


@pytest.mark.parametrize(
    ("parameter", "allowed", "refused"),
    [
        ("BatchSize", [], ["100", 1.5, True]),
        ("MaximumBatchingWindowInSeconds", [0, 300], [-1]),
        ("ParallelizationFactor", [1], [None]),
        ("MaximumRetryAttempts", [10_000], [-2]),
        ("MaximumRecordAgeInSeconds", [-1, 604_800], [0]),
        ("TumblingWindowInSeconds", [0], []),
        ("StartingPosition", ["LATEST"], ["latest"]),
        ("FunctionResponseTypes", [[]], []),
        ("Enabled", [True], [False, "no"]),
        ("ProvisionedPollerConfig", [], [{"MinimumPollers": 1}]),
    ],
)
def test_each_parameter_has_its_range(parameter: str, allowed: list[Any], refused: list[Any]) -> None:
    for value in allowed:
        from_template(**{parameter: value})
    for value in refused:
        with pytest.raises(ValueError, match=parameter if parameter[:3] != "Bis" else "true or false"):
            from_template(**{parameter: value})


def test_a_switch_is_true_or_false() -> None:
    with pytest.raises(ValueError, match="bisect_on_error 'true': true or false is expected"):
        from_template(BisectBatchOnFunctionError="true")


def test_a_stream_needs_a_starting_position() -> None:
    with pytest.raises(ValueError, match="StartingPosition is required"):
        MappingSettings.from_template({"BatchSize": 1})
