"""All presets by name, in the order in which they run."""
from .appends import AppendersOverConnections, AppendersRaw, AppendersSlowSync
from .cluster import (
    FailOver, FailOverOfMany, ReplicatedAppenders, ReplicatedAppendersSlowSync, ReplicatedConsumer, ReplicatedConsumers, ReplicatedEndToEnd,
    ReplicatedMessageSizes, ReplicatedPipeline, ReplicatedProducer, ReplicatedProducerAndConsumer, ReplicatedProducers, ReplicatedStored, TieringAll, TieringOne,
)
from .compaction import Compaction
from .connections import IdleConnections
from .consume import ConsumerOfSmallBatches, OneConsumer, ProducerAndConsumer, Sink, ThreeConsumers
from .groups import JoinAtOnce, OffsetCommits, RawOffsetCommits, RollingRestart
from .latency import ColdReaderBesideProducer, EndToEnd
from .lifecycle import ManyPartitionsStart, Startup
from .partitions import DirtyPartitions
from .produce import BytesBesideValue, EvenRate, MessageSizes, OneProducer, SmallBatches, ThreeProducers
from .reads import LargeReply, NextFetchUnderWay, SizesOfFetch, StockConsumers
from .transactions import CommittedReads, StreamsWordCount, Transactions

PRESETS = {p.name: p for p in (
    OneProducer, ThreeProducers, EvenRate, OneConsumer, ThreeConsumers, ProducerAndConsumer, MessageSizes, EndToEnd, BytesBesideValue,
    SmallBatches, ConsumerOfSmallBatches, SizesOfFetch, StockConsumers, NextFetchUnderWay, LargeReply, AppendersOverConnections, AppendersRaw, AppendersSlowSync, Sink,
    ColdReaderBesideProducer, DirtyPartitions, ManyPartitionsStart, Startup,
    Transactions, CommittedReads, StreamsWordCount, OffsetCommits, RawOffsetCommits, JoinAtOnce, RollingRestart, IdleConnections, Compaction,
    ReplicatedProducer, ReplicatedProducers, ReplicatedPipeline, ReplicatedStored, ReplicatedConsumer, ReplicatedConsumers, ReplicatedProducerAndConsumer,
    ReplicatedMessageSizes, TieringAll, TieringOne, ReplicatedEndToEnd, ReplicatedAppenders, ReplicatedAppendersSlowSync, FailOver, FailOverOfMany,
)}
ALIASES = {"n37": "n36", "a24-franz": "a24"}
