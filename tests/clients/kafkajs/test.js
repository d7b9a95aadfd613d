// kafkajs: its producer and admin client, groups and transactions. Its consumer only works in a group, so facts about
// records read them back with kcat.
"use strict";

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const crypto = require("node:crypto");
const path = require("node:path");

const modules = path.join(__dirname, "../../../.cache/clients/kafkajs/node_modules/kafkajs");
const { Kafka, CompressionTypes, ConfigResourceTypes, logLevel } = require(modules);

const bootstrap = process.env.BOOTSTRAP || "127.0.0.1:9092";
// In a run with logins: who it is.
const { ESKER_SASL_MECHANISM: mechanism, ESKER_SASL_USER: username, ESKER_SASL_PASSWORD: password } = process.env;
const sasl = username && { mechanism, username, password };
// It logs in again so long before the end of a session; by its default, of ten seconds, before each request where sessions are as short.
const reauthenticationThreshold = 2000;
const kafka = new Kafka({ sasl, reauthenticationThreshold, clientId: "tests", brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 5 } });
const admin = kafka.admin();
const impatient = kafka.admin({ retry: { retries: 0 } }); // kafkajs asks again for seconds when a topic is unknown
const newName = (prefix) => `${prefix}-${crypto.randomBytes(4).toString("hex")}`;
const facts = [];
const fact = (name, body) => facts.push({ name, body });

async function topic(prefix, numPartitions = 1, settings = {}) {
  const name = newName(prefix);
  const configEntries = Object.entries({ "retention.ms": "-1", ...settings }).map(([name, value]) => ({ name, value }));
  for (let tries = 0; ; tries++) {
    try {
      // False where it is there: nobody else has the name, so an answer was lost.
      assert.ok((await admin.createTopics({ topics: [{ topic: name, numPartitions, configEntries }] })) || tries);
      return name;
    } catch (error) {
      // The admin client of kafkajs gives up when its connection ends, and asks a node that was killed until that is back.
      if (!process.env.KILLS || tries > 30 || !error.name.startsWith("KafkaJSConnection")) throw error;
      await new Promise((done) => setTimeout(done, 500));
    }
  }
}

async function withProducer(settings, body) {
  const producer = kafka.producer(settings);
  await producer.connect();
  try {
    return await body(producer);
  } finally {
    await producer.disconnect();
  }
}

function kcat(...args) {
  return execFileSync("kcat", ["-b", bootstrap, "-C", "-q", "-e", ...args], { maxBuffer: 1 << 28, timeout: 60000 });
}

async function waitFor(what, holds) {
  const end = Date.now() + 15000;
  while (!(await holds())) {
    assert.ok(Date.now() < end, `${what}: not in time`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

fact("an_idempotent_producer_keeps_order", async () => {
  const name = await topic("order");
  await withProducer({ idempotent: true, maxInFlightRequests: 1 }, async (producer) => {
    for (let part = 0; part < 20; part++) {
      const messages = Array.from({ length: 500 }, (_, i) => ({ value: `${part * 500 + i}`, partition: 0 }));
      const [done] = await producer.send({ topic: name, messages });
      assert.equal(done.errorCode, 0);
      assert.equal(done.baseOffset, `${part * 500}`);
    }
  });
  const want = Array.from({ length: 10000 }, (_, i) => `${i}\n`).join("");
  assert.equal(kcat("-t", name, "-p", "0").toString(), want);
});

fact("gzip_keys_and_headers_return", async () => {
  const name = await topic("gzip");
  await withProducer({}, async (producer) => {
    const messages = Array.from({ length: 1000 }, (_, i) => ({
      key: `k${i}`, value: "v".repeat(i % 100), headers: { a: `${i}`, b: Buffer.from([1, 2]) }, timestamp: `${1600000000000 + i}`,
    }));
    await producer.send({ topic: name, messages, compression: CompressionTypes.GZIP, acks: -1 });
  });
  const want = Array.from({ length: 1000 }, (_, i) => `${i} k${i} ${"v".repeat(i % 100)} a=${i},b=\x01\x02 ${1600000000000 + i}\n`).join("");
  assert.equal(kcat("-t", name, "-p", "0", "-f", "%o %k %s %h %T\n").toString(), want);
});

fact("several_topics_in_one_send", async () => {
  const names = [await topic("multi", 3), await topic("multi", 3)];
  await withProducer({}, async (producer) => {
    const topicMessages = names.map((name) => ({ topic: name, messages: [0, 1, 2].map((p) => ({ partition: p, value: `${name}/${p}` })) }));
    const done = await producer.sendBatch({ topicMessages });
    assert.equal(done.length, 6);
  });
  for (const name of names) {
    for (const p of [0, 1, 2]) {
      assert.equal(kcat("-t", name, "-p", `${p}`).toString(), `${name}/${p}\n`);
    }
  }
});

fact("acks_0_and_1_store", async () => {
  for (const acks of [0, 1]) {
    const name = await topic(`acks-${acks}`);
    await withProducer({}, (producer) => producer.send({ topic: name, acks, messages: [{ value: "a" }, { value: "b" }] }));
    await waitFor(`acks ${acks}`, async () => (await admin.fetchTopicOffsets(name))[0].high === "2");
    assert.equal(kcat("-t", name, "-p", "0").toString(), "a\nb\n");
  }
});

fact("a_record_over_the_limit_is_refused", async () => {
  const name = await topic("limit", 1, { "max.message.bytes": "5000" });
  await withProducer({}, async (producer) => {
    const refused = producer.send({ topic: name, messages: [{ value: "x".repeat(6000) }] });
    await assert.rejects(refused, (error) => error.type === "MESSAGE_TOO_LARGE");
    await producer.send({ topic: name, messages: [{ value: "small" }] });
  });
});

fact("admin_creates_lists_grows_deletes", async () => {
  const name = newName("admin");
  assert.equal(await admin.createTopics({ waitForLeaders: true, topics: [{ topic: name, numPartitions: 2 }] }), true);
  assert.equal(await admin.createTopics({ topics: [{ topic: name }] }), false);
  assert.ok((await admin.listTopics()).includes(name));
  await admin.createPartitions({ topicPartitions: [{ topic: name, count: 4 }] });
  await waitFor("four partitions", async () => (await admin.fetchTopicMetadata({ topics: [name] })).topics[0].partitions.length === 4);
  await admin.deleteTopics({ topics: [name] });
  await waitFor("the topic to go", async () => !(await admin.listTopics()).includes(name));
  await assert.rejects(impatient.deleteTopics({ topics: [name] }), /does not host this topic-partition/);
});

fact("admin_fetches_offsets_and_deletes_records", async () => {
  const name = await topic("offsets");
  await withProducer({}, (producer) => producer.send({
    topic: name, messages: Array.from({ length: 10 }, (_, i) => ({ value: `${i}`, timestamp: `${1000000 + i}` })),
  }));
  assert.deepEqual(await admin.fetchTopicOffsets(name), [{ partition: 0, offset: "10", high: "10", low: "0" }]);
  assert.deepEqual(await admin.fetchTopicOffsetsByTimestamp(name, 1000004), [{ partition: 0, offset: "4" }]);
  await admin.deleteTopicRecords({ topic: name, partitions: [{ partition: 0, offset: "6" }] });
  assert.equal((await admin.fetchTopicOffsets(name))[0].low, "6");
});

fact("admin_describes_and_alters_settings", async () => {
  const name = await topic("settings");
  const described = async () => {
    const found = await admin.describeConfigs({ includeSynonyms: true, resources: [{ type: ConfigResourceTypes.TOPIC, name }] });
    return Object.fromEntries(found.resources[0].configEntries.map((e) => [e.configName, e.configValue]));
  };
  assert.equal((await described())["max.message.bytes"], "1048588");
  const configEntries = [{ name: "retention.ms", value: "7200000" }];
  await admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name, configEntries }] });
  await waitFor("the new value", async () => (await described())["retention.ms"] === "7200000");
});

fact("admin_describes_the_cluster", async () => {
  const nodes = (process.env.NODES || bootstrap).split(",").sort().join();
  let cluster;
  // One that was killed meanwhile comes back.
  await waitFor("every broker", async () => {
    cluster = await admin.describeCluster();
    return cluster.brokers.map((b) => `${b.host}:${b.port}`).sort().join() === nodes;
  });
  assert.ok(cluster.brokers.some((b) => b.nodeId === cluster.controller));
  assert.ok(cluster.clusterId.length > 0);
});

// A consumer in a group that takes what comes; `owned` are its partitions.
async function member(groupId, topic, settings = {}) {
  const consumer = kafka.consumer({ groupId, heartbeatInterval: 300, sessionTimeout: 10000, maxWaitTimeInMs: 50, ...settings });
  const self = { consumer, owned: [], got: new Set(), crash: null };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => { self.owned = payload.memberAssignment[topic] || []; });
  consumer.on(consumer.events.REBALANCING, () => { self.owned = []; });
  consumer.on(consumer.events.CRASH, ({ payload }) => { self.crash = payload.error; });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({ autoCommit: false, eachMessage: async ({ partition, message }) => { self.got.add(`${partition}:${message.offset}`); } });
  return self;
}

function shared(members, partitions) {
  const owned = members.flatMap((m) => m.owned).sort();
  return members.every((m) => m.owned.length > 0) && JSON.stringify(owned) === JSON.stringify([...Array(partitions).keys()]);
}

async function fill(topic, partitions, each) {
  await withProducer({}, (producer) => producer.send({
    topic, messages: Array.from({ length: partitions * each }, (_, i) => ({ partition: i % partitions, value: `${i}` })),
  }));
}

fact("members_share_and_a_later_one_goes_on_where_they_committed", async () => {
  const name = await topic("shared", 4);
  const group = newName("group");
  await fill(name, 4, 50);
  const members = [await member(group, name), await member(group, name)];
  await waitFor("two members share", () => shared(members, 4));
  await waitFor("every record", () => new Set(members.flatMap((m) => [...m.got])).size === 200);
  for (const m of members) {
    await m.consumer.commitOffsets(m.owned.map((partition) => ({ topic: name, partition, offset: "50", metadata: "half" })));
  }
  for (const m of members) {
    await m.consumer.disconnect();
  }
  await fill(name, 4, 1);
  const third = await member(group, name);
  await waitFor("the records behind the committed offsets", () => third.got.size >= 4);
  assert.deepEqual([...third.got].sort(), ["0:50", "1:50", "2:50", "3:50"]);
  await third.consumer.disconnect();
  const [committed] = await admin.fetchOffsets({ groupId: group, topics: [name] });
  assert.deepEqual(committed.partitions.map((p) => `${p.offset} ${p.metadata}`), Array(4).fill("50 half"));
});

fact("what_a_member_leaves_goes_to_the_other", async () => {
  const name = await topic("leaving", 4);
  const group = newName("group");
  const members = [await member(group, name), await member(group, name)];
  await waitFor("two members share", () => shared(members, 4));
  await members[1].consumer.disconnect();
  await waitFor("the other has all", () => shared([members[0]], 4));
  await members[0].consumer.disconnect();
});

fact("admin_lists_describes_resets_and_deletes_a_group", async () => {
  const name = await topic("adm", 2);
  const group = newName("group");
  await fill(name, 2, 10);
  const one = await member(group, name);
  await waitFor("one member owns all", () => shared([one], 2));
  assert.ok((await admin.listGroups()).groups.some((g) => g.groupId === group && g.protocolType === "consumer"));
  const { groups: [described] } = await admin.describeGroups([group]);
  assert.equal(described.state, "Stable");
  assert.equal(described.members.length, 1);
  await assert.rejects(impatient.deleteGroups([group]), (error) => error.groups[0].error.type === "NON_EMPTY_GROUP");
  await one.consumer.disconnect();
  await admin.setOffsets({ groupId: group, topic: name, partitions: [{ partition: 0, offset: "3" }] });
  const at = async () => (await admin.fetchOffsets({ groupId: group, topics: [name] }))[0].partitions.map((p) => p.offset).join();
  assert.equal(await at(), "3,-1");
  await admin.resetOffsets({ groupId: group, topic: name, earliest: false });
  assert.equal((await admin.fetchOffsets({ groupId: group, topics: [name], resolveOffsets: true }))[0].partitions.map((p) => p.offset).join(), "10,10");
  await admin.deleteGroups([group]);
  assert.ok(!(await admin.listGroups()).groups.some((g) => g.groupId === group));
});

function transactional(transactionalId) {
  return kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1, transactionTimeout: 30000 });
}

// What a reader of committed data finds, once there are as many lines as wanted.
async function committed(name, want) {
  const lines = () => kcat("-t", name, "-p", "0", "-X", "isolation.level=read_committed").toString().split("\n").slice(0, -1);
  await waitFor(`${want.length} committed records`, () => lines().length >= want.length);
  assert.deepEqual(lines(), want);
}

fact("committed_transactions_are_read_and_aborted_ones_are_not", async () => {
  const name = await topic("txn");
  const producer = transactional(newName("id"));
  await producer.connect();
  const want = [];
  for (let number = 0; number < 10; number++) {
    const transaction = await producer.transaction();
    const values = [0, 1, 2].map((at) => `${number}.${at}`);
    for (const value of values) {
      await transaction.send({ topic: name, messages: [{ value, partition: 0 }] });
    }
    if (number % 3) {
      await transaction.commit();
      want.push(...values);
    } else {
      await transaction.abort();
    }
  }
  await producer.disconnect();
  await committed(name, want);
});

fact("offsets_of_a_group_move_with_the_transaction", async () => {
  const name = await topic("moves");
  const group = newName("group");
  const id = newName("id");
  const producer = transactional(id);
  await producer.connect();
  for (const [offset, end] of [["7", "commit"], ["9", "abort"]]) {
    const transaction = await producer.transaction();
    await transaction.send({ topic: name, messages: [{ value: offset, partition: 0 }] });
    await transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic: name, partitions: [{ partition: 0, offset }] }] });
    await transaction[end]();
  }
  // kafkajs does not ask for a transaction's state. The id's next producer is let in when the last transaction has ended.
  await producer.disconnect();
  const next = transactional(id);
  await next.connect();
  await next.disconnect();
  assert.equal((await admin.fetchOffsets({ groupId: group, topics: [name] }))[0].partitions[0].offset, "7");
  await committed(name, ["7"]);
});

// Numbered records go in and out for LOAD_SECONDS, whatever a broker does to the logins of their clients meanwhile. For a broker of another
// kind, so it is there for who asks for it.
const loadSeconds = Number(process.env.LOAD_SECONDS);
if (process.env.SPECIAL === "numbered_records_flow_in_and_out_for_a_while") {
  fact(process.env.SPECIAL, async () => {
    const name = await topic("flow", 3);
    const [found, errors] = [new Map(), []];
    const consumer = kafka.consumer({ groupId: newName("group"), retry: { retries: 5 } });
    consumer.on(consumer.events.CRASH, ({ payload }) => errors.push(`read: ${payload.error}`));
    await consumer.connect();
    await consumer.subscribe({ topic: name, fromBeginning: true });
    const eachMessage = async ({ partition, message }) => {
      const number = Number(message.value);
      found.set(number, (found.get(number) || new Set()).add(`${partition}:${message.offset}`));
    };
    await consumer.run({ eachMessage });
    let count = 0;
    await withProducer({ idempotent: true, maxInFlightRequests: 1 }, async (producer) => {
      for (const end = Date.now() + loadSeconds * 1000; Date.now() < end; ) {
        const messages = Array.from({ length: 10 }, () => ({ value: `${count++}` }));
        await producer.send({ topic: name, messages });
        await new Promise((done) => setTimeout(done, 20));
      }
    });
    assert.ok(count > 10 * loadSeconds, `only ${count} records`);
    await waitFor("every record", () => found.size === count || errors.length);
    await consumer.disconnect();
    assert.deepEqual(errors, []);
    assert.ok([...found.values()].every((places) => places.size === 1), "a record is doubled");
  });
}

async function main() {
  console.log(`version ${require(path.join(modules, "package.json")).version}`);
  const only = new RegExp(process.env.ONLY || "");
  let failed = 0;
  await admin.connect();
  await impatient.connect();
  for (const { name, body } of facts.filter((f) => only.test(f.name))) {
    const begin = process.hrtime.bigint();
    const seconds = () => (Number(process.hrtime.bigint() - begin) / 1e9).toFixed(2);
    try {
      await body();
      console.log(`pass ${name} ${seconds()}`);
    } catch (error) {
      failed++;
      console.error(error);
      console.log(`fail ${name} ${seconds()} ${String(error).replaceAll("\n", " ")}`);
    }
  }
  await admin.disconnect();
  await impatient.disconnect();
  process.exit(failed ? 1 : 0);
}

main();
