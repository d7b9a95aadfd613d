package clients;

import static clients.Facts.get;

import java.io.ByteArrayInputStream;
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
import org.apache.kafka.common.message.SaslAuthenticateRequestData;
import org.apache.kafka.common.message.SaslHandshakeRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.SaslAuthenticateRequest;
import org.apache.kafka.common.requests.SaslHandshakeRequest;

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
            if (System.getenv("ESKER_SASL_USER") != null) {
                logIn(socket);
            }
            DataInputStream in = ask(socket, request);
            in.skipNBytes(4); // number of topics
            in.readUTF();
            in.skipNBytes(8); // number of partitions, partition
            return Errors.forCode(in.readShort());
        }
    }

    /** By PLAIN, whatever the run's mechanism: every listener of a run with logins offers it. */
    private static void logIn(Socket socket) throws IOException {
        String token = "\0" + System.getenv("ESKER_SASL_USER") + "\0" + System.getenv("ESKER_SASL_PASSWORD");
        short v1 = 1;
        short v0 = 0;
        ask(socket, new SaslHandshakeRequest(new SaslHandshakeRequestData().setMechanism("PLAIN"), v1)
            .serializeWithHeader(new RequestHeader(ApiKeys.SASL_HANDSHAKE, v1, "hanging", 2)));
        DataInputStream in = ask(socket, new SaslAuthenticateRequest(
            new SaslAuthenticateRequestData().setAuthBytes(token.getBytes(StandardCharsets.UTF_8)), v0)
            .serializeWithHeader(new RequestHeader(ApiKeys.SASL_AUTHENTICATE, v0, "hanging", 3)));
        Facts.equal(Errors.forCode(in.readShort()), Errors.NONE, "login");
    }

    /** The answer behind its correlation id. */
    private static DataInputStream ask(Socket socket, ByteBuffer request) throws IOException {
        DataOutputStream out = new DataOutputStream(socket.getOutputStream());
        byte[] bytes = new byte[request.remaining()];
        request.get(bytes);
        out.writeInt(bytes.length);
        out.write(bytes);
        out.flush();
        DataInputStream in = new DataInputStream(socket.getInputStream());
        byte[] answer = new byte[in.readInt()];
        in.readFully(answer);
        return new DataInputStream(new ByteArrayInputStream(answer, 4, answer.length - 4));
    }
}
