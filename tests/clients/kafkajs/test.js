// kafkajs: its producer and admin client. Its consumer only works in a group, so records are read back with kcat.
"use strict";

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const crypto = require("node:crypto");
const path = require("node:path");

const modules = path.join(__dirname, "../../../.cache/clients/kafkajs/node_modules/kafkajs");
const { Kafka, CompressionTypes, ConfigResourceTypes, logLevel } = require(modules);

const bootstrap = process.env.BOOTSTRAP || "127.0.0.1:9092";
const kafka = new Kafka({ clientId: "tests", brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 5 } });
const admin = kafka.admin();
const impatient = kafka.admin({ retry: { retries: 0 } }); // kafkajs asks again for seconds when a topic is unknown
const newName = (prefix) => `${prefix}-${crypto.randomBytes(4).toString("hex")}`;
const facts = [];
const fact = (name, body) => facts.push({ name, body });

async function topic(prefix, numPartitions = 1, settings = {}) {
  const name = newName(prefix);
  const configEntries = Object.entries({ "retention.ms": "-1", ...settings }).map(([name, value]) => ({ name, value }));
  assert.equal(await admin.createTopics({ topics: [{ topic: name, numPartitions, configEntries }] }), true);
  return name;
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
  const cluster = await admin.describeCluster();
  assert.deepEqual(cluster.brokers.map((b) => `${b.host}:${b.port}`), [bootstrap]);
  assert.equal(cluster.controller, cluster.brokers[0].nodeId);
  assert.ok(cluster.clusterId.length > 0);
});

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
