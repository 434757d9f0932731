"""Facts about concurrent batches and the order of records."""

from functools import partial

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Call, Failing, MappingProbe, Write

_ITEMS = "abcdefghijklmnopqrst"
_probe = partial(MappingProbe, source=sources.DYNAMODB_MAPPING)
_family = partial(
    MappingProbe,
    source=sources.STREAMS,
    settings={"BatchSize": 10},
    writes=(Write(item="b", shard="shardId-2"), Write(shard="shardId-1")),
    parents={"shardId-2": "shardId-1"},
)
"""A fact about a parent shard and its child shard. Record 1 is in the child shard, record 2 in the parent shard."""

PROBES = (
    _probe(
        name="one_batch_of_a_shard_at_a_time",
        says="By default, one batch of a shard is processed at a time.",
        settings={"BatchSize": 1},
        function_seconds=0.5,
        writes=(Write(),) * 3,
        calls=(Call(records=(1,), at=0), Call(records=(2,), at=0.5), Call(records=(3,), at=1)),
        parallel=(1, 1),
    ),
    _probe(
        name="parallel_batches_of_a_shard",
        says="With ParallelizationFactor 10, batches of different items of a shard are processed at the same time.",
        settings={"BatchSize": 1, "ParallelizationFactor": 10},
        function_seconds=0.5,
        writes=tuple(Write(item=item) for item in _ITEMS),
        calls=tuple(Call(records=(number,)) for number in range(1, 21)),
        any_order=True,
        parallel=(2, 10),
        watch_seconds=12,
    ),
    _probe(
        name="parallel_batches_keep_the_order_of_an_item",
        says="With ParallelizationFactor 10, the records of one item are still processed one by one, in order.",
        settings={"BatchSize": 1, "ParallelizationFactor": 10},
        function_seconds=0.3,
        writes=(Write(),) * 4,
        calls=tuple(Call(records=(number,)) for number in range(1, 5)),
        parallel=(1, 1),
    ),
    _probe(
        name="a_failing_record_blocks_later_records_of_its_item",
        says="While a record is retried, later records of its item wait.",
        source=sources.ERRORS,
        settings={"BatchSize": 1, "ParallelizationFactor": 10},
        behaviour=(Failing(record=1, times=2),),
        writes=(Write(), Write()),
        calls=(Call(records=(1,)), Call(records=(1,)), Call(records=(1,)), Call(records=(2,))),
    ),
    _probe(
        name="a_failing_record_blocks_its_shard",
        says="With ParallelizationFactor 1, a failing batch blocks the records of all items of its shard.",
        source=sources.ERRORS,
        settings={"BatchSize": 1},
        behaviour=(Failing(record=1, times=2),),
        writes=(Write(), Write(item="b")),
        calls=(Call(records=(1,)), Call(records=(1,)), Call(records=(1,)), Call(records=(2,))),
    ),
    _probe(
        name="a_failing_item_leaves_other_items_alone",
        says="With ParallelizationFactor 10, the other items of the shard are processed while one item fails.",
        open_question="AWS's page does not say. Does a failing batch block the parallel batches of its shard?",
        settings={"BatchSize": 1, "ParallelizationFactor": 10},
        function_seconds=2,
        behaviour=(Failing(record=1, times=2),),
        writes=(Write(item="a"), Write(item="b", at=2.5, follows_call=True)),
        calls=(*(Call(records=(1,)),) * 3, Call(records=(2,))),
        any_order=True,
        parallel=(2, 10),
        watch_seconds=12,
    ),
    _probe(
        name="batches_do_not_mix_shards",
        says="A batch contains records of one shard only.",
        settings={"BatchSize": 10},
        writes=(Write(shard="shardId-1"), Write(item="b", shard="shardId-2"), Write(shard="shardId-1")),
        parents={"shardId-2": "none"},
        calls=(Call(records=(1, 3)), Call(records=(2,))),
        any_order=True,
    ),
    _family(
        name="parent_shard_before_child_shard",
        says="Lambda processes the records of a parent shard before those of its child shard.",
        closed=("shardId-1",),
        function_seconds=1,
        calls=(Call(records=(2,), at=0), Call(records=(1,), at=1)),
    ),
    _family(
        name="failing_parent_shard_blocks_child_shard",
        says="While a record of the parent shard is retried, the records of its child shard wait.",
        behaviour=(Failing(record=2, times=1),),
        closed=("shardId-1",),
        calls=(Call(records=(2,)), Call(records=(2,)), Call(records=(1,))),
    ),
    _family(
        name="discarded_batch_of_parent_shard_frees_child_shard",
        says="When the mapping discards a batch of the parent shard, it continues with the child shard.",
        settings={"BatchSize": 10, "MaximumRetryAttempts": 0},
        behaviour=(Failing(record=2),),
        closed=("shardId-1",),
        calls=(Call(records=(2,)), Call(records=(1,))),
    ),
    _family(
        name="open_parent_shard_blocks_child_shard",
        says="The records of a child shard wait while the parent shard is open.",
        calls=(Call(records=(2,)),),
    ),
)
