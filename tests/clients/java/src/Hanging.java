package clients;

import static clients.Facts.BOOTSTRAP;
import static clients.Facts.get;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceRequestData.PartitionProduceData;
import org.apache.kafka.common.message.ProduceRequestData.TopicProduceData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.RequestHeader;

/** A transaction that is open in a partition and unknown to every coordinator; no client of today leaves one. */
final class Hanging {
    /** The last one whose answer is plain fields. */
    private static final short VERSION = 7;

    private Hanging() {}

    /** Begins one in partition 0. A broker that verifies would not take it, so for a moment it does not. */
    static void begin(Admin admin, String topic, long producerId, short epoch) throws Exception {
        verify(admin, false);
        try {
            Facts.waitFor("a broker that does not verify", () -> produce(topic, producerId, epoch) == Errors.NONE);
        } finally {
            verify(admin, true);
        }
    }

    private static void verify(Admin admin, boolean verifies) throws Exception {
        ConfigEntry entry = new ConfigEntry("transaction.partition.verification.enable", "" + verifies);
        ConfigResource brokers = new ConfigResource(ConfigResource.Type.BROKER, "");
        get(admin.incrementalAlterConfigs(Map.of(brokers, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all());
    }

    private static Errors produce(String topic, long producerId, short epoch) throws IOException {
        SimpleRecord record = new SimpleRecord(System.currentTimeMillis(), "lost".getBytes(StandardCharsets.UTF_8));
        MemoryRecords records = MemoryRecords.withTransactionalRecords(Compression.NONE, producerId, epoch, 0, record);
        ProduceRequestData data = new ProduceRequestData().setTransactionalId("nobody").setAcks((short) -1).setTimeoutMs(10_000);
        data.topicData().add(new TopicProduceData().setName(topic)
            .setPartitionData(List.of(new PartitionProduceData().setIndex(0).setRecords(records))));
        RequestHeader header = new RequestHeader(ApiKeys.PRODUCE, VERSION, "hanging", 1);
        ByteBuffer request = new ProduceRequest(data, VERSION).serializeWithHeader(header);
        String[] address = Facts.NODES.get(0).split(":");
        try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            byte[] bytes = new byte[request.remaining()];
            request.get(bytes);
            out.writeInt(bytes.length);
            out.write(bytes);
            out.flush();
            DataInputStream in = new DataInputStream(socket.getInputStream());
            in.skipNBytes(12); // size, correlation id, number of topics
            in.readUTF();
            in.skipNBytes(8); // number of partitions, partition
            return Errors.forCode(in.readShort());
        }
    }
}
