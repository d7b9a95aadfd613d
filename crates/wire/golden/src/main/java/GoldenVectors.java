// Writes golden vectors: messages as Kafka's own codec writes them, for every message, record and version.
//
//   java -cp 'jars/*' GoldenVectors.java VECTORS APIS
//
// VECTORS is text, one vector a line, compressed with zstd:
//
//   GROUP NAME VERSION default HEX|!           nothing set; `!` when the codec refuses
//   GROUP NAME VERSION random HEX              every field of the version set by a seeded generator
//   GROUP NAME VERSION down HEX HEX|!          a sparse message in its latest version, then the same one in VERSION
//
// APIS is text, one API a line:
//
//   KEY NAME MIN MAX STABLE BROKER CONTROLLER VERSION:REQUEST_HEADER:RESPONSE_HEADER...
//
// Seeds depend on name, version and number only, so a run gives the same lines everywhere.

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.github.luben.zstd.ZstdOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.jar.JarFile;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public final class GoldenVectors {
    private static final int RANDOM_PER_VERSION = 3;
    private static final int DOWN_PER_VERSION = 3;
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final ObjectMapper MAPPER = new ObjectMapper().configure(JsonParser.Feature.ALLOW_COMMENTS, true);

    // Group, jar, directory of the definitions in it, package of the classes.
    private static final String[][] SOURCES = {
        {"messages", "kafka-clients", "common/message/", "org.apache.kafka.common.message"},
        {"metadata", "kafka-metadata", "common/metadata/", "org.apache.kafka.common.metadata"},
        {"group", "kafka-group-coordinator", "common/message/", "org.apache.kafka.coordinator.group.generated"},
        {"transaction", "kafka-transaction-coordinator", "common/message/", "org.apache.kafka.coordinator.transaction.generated"},
        {"share", "kafka-share-coordinator", "common/message/", "org.apache.kafka.coordinator.share.generated"},
        {"storage", "kafka-storage", "message/", "org.apache.kafka.server.log.remote.metadata.storage.generated"},
        {"raft", "kafka-raft", "common/message/", "org.apache.kafka.raft.generated"},
    };

    public static void main(String[] args) throws Exception {
        try (PrintStream out = new PrintStream(new ZstdOutputStream(new FileOutputStream(args[0]), 19), false, "UTF-8")) {
            for (String[] source : SOURCES) {
                for (JsonNode definition : definitions(source[1], source[2]).values()) {
                    if (!definition.get("validVersions").asText().equals("none")) {
                        new GoldenVectors(source[0], source[3], definition).write(out);
                    }
                }
            }
        }
        try (PrintStream out = new PrintStream(args[1], "UTF-8")) {
            for (ApiKeys api : ApiKeys.values()) {
                if (api.hasValidVersion()) {
                    out.println(facts(api));
                }
            }
        }
    }

    private static String facts(ApiKeys api) {
        StringBuilder line = new StringBuilder();
        line.append(api.id).append(' ').append(api.name).append(' ').append(api.oldestVersion()).append(' ').append(api.latestVersion());
        line.append(' ').append(api.latestVersion(false));
        line.append(' ').append(api.inScope(ApiMessageType.ListenerType.BROKER));
        line.append(' ').append(api.inScope(ApiMessageType.ListenerType.CONTROLLER));
        for (short version = api.oldestVersion(); version <= api.latestVersion(); version++) {
            line.append(' ').append(version).append(':').append(api.requestHeaderVersion(version));
            line.append(':').append(api.responseHeaderVersion(version));
        }
        return line.toString();
    }

    private static Map<String, JsonNode> definitions(String jar, String dir) throws Exception {
        Map<String, JsonNode> found = new TreeMap<>();
        try (JarFile file = new JarFile(jarPath(jar))) {
            for (var entry : file.stream().toList()) {
                String name = entry.getName();
                if (name.startsWith(dir) && name.endsWith(".json")) {
                    found.put(name, MAPPER.readTree(file.getInputStream(entry)));
                }
            }
        }
        return found;
    }

    private static String jarPath(String jar) {
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (new File(path).getName().matches(jar + "-[0-9.]+\\.jar")) {
                return path;
            }
        }
        throw new IllegalStateException("not on the class path: " + jar);
    }

    private record Range(int low, int high) {
        static Range of(JsonNode node) {
            String text = node == null ? "none" : node.asText();
            if (text.equals("none")) {
                return new Range(0, -1);
            }
            if (text.endsWith("+")) {
                return new Range(Integer.parseInt(text.substring(0, text.length() - 1)), Short.MAX_VALUE);
            }
            String[] ends = text.split("-");
            return new Range(Integer.parseInt(ends[0]), Integer.parseInt(ends[ends.length - 1]));
        }

        boolean contains(int version) {
            return low <= version && version <= high;
        }
    }

    private final String group;
    private final String name;
    private final Range versions;
    private final JsonNode definition;
    private final Map<String, JsonNode> structs = new HashMap<>();
    private final Class<?> type;
    private final Class<?> converter;
    private Random random;

    private GoldenVectors(String group, String classes, JsonNode definition) throws Exception {
        this.group = group;
        this.definition = definition;
        this.name = definition.get("name").asText();
        this.versions = Range.of(definition.get("validVersions"));
        String kind = definition.get("type").asText();
        boolean data = kind.equals("request") || kind.equals("response") || kind.equals("header");
        String className = name + (data ? "Data" : "");
        this.type = Class.forName(classes + "." + className);
        this.converter = Class.forName(classes + "." + className + "JsonConverter");
        if (definition.has("commonStructs")) {
            definition.get("commonStructs").forEach(struct -> structs.put(struct.get("name").asText(), struct));
        }
    }

    private void write(PrintStream out) throws Exception {
        for (int version = versions.low; version <= versions.high; version++) {
            String head = group + " " + name + " " + version + " ";
            out.println(head + "default " + encode((Message) type.getDeclaredConstructor().newInstance(), version));
            for (int i = 0; i < RANDOM_PER_VERSION; i++) {
                random = new Random(name.hashCode() * 1_000_003L + version * 1009L + i);
                String hex = encode(read(struct(definition.get("fields"), version, 1.0), version), version);
                if (hex.equals("!")) {
                    throw new IllegalStateException(head + "refused a random value");
                }
                out.println(head + "random " + hex);
            }
            for (int i = 0; i < DOWN_PER_VERSION && version < versions.high; i++) {
                random = new Random(name.hashCode() * 1_000_003L + version * 1009L + 500 + i);
                Message sparse = read(struct(definition.get("fields"), versions.high, 0.15), versions.high);
                out.println(head + "down " + encode(sparse, versions.high) + " " + encode(sparse, version));
            }
        }
    }

    private Message read(JsonNode json, int version) throws Exception {
        return (Message) converter.getMethod("read", JsonNode.class, short.class).invoke(null, json, (short) version);
    }

    private static String encode(Message message, int version) {
        try {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, (short) version));
            message.write(new ByteBufferAccessor(buffer), cache, (short) version);
            return buffer.position() == 0 ? "." : HexFormat.of().formatHex(buffer.array(), 0, buffer.position());
        } catch (RuntimeException e) {
            return "!";
        }
    }

    /** Fields that are not filled keep their default. */
    private ObjectNode struct(JsonNode fields, int version, double filled) {
        ObjectNode node = JSON.objectNode();
        for (JsonNode field : fields) {
            JsonNode versions = field.has("versions") ? field.get("versions") : field.get("taggedVersions");
            if (!Range.of(versions).contains(version)) {
                continue;
            }
            String text = field.get("name").asText();
            String key = Character.toLowerCase(text.charAt(0)) + text.substring(1);
            boolean tagged = Range.of(field.get("taggedVersions")).contains(version);
            boolean nullable = Range.of(field.get("nullableVersions")).contains(version);
            if (random.nextDouble() >= filled) {
                if (!tagged) {
                    node.set(key, unset(field, version));
                }
            } else if (tagged && random.nextInt(3) == 0) {
                continue;
            } else if (nullable && random.nextInt(4) == 0) {
                node.set(key, NullNode.getInstance());
            } else {
                node.set(key, value(field.get("type").asText(), field, version, filled));
            }
        }
        return node;
    }

    private JsonNode unset(JsonNode field, int version) {
        String type = field.get("type").asText();
        JsonNode given = field.get("default");
        String text = given == null || given.isNull() ? "" : given.asText();
        if (text.equals("null") || type.equals("records")) {
            return NullNode.getInstance();
        }
        if (type.startsWith("[]")) {
            return JSON.arrayNode();
        }
        return switch (type) {
            case "bool" -> JSON.booleanNode(text.equals("true"));
            case "int8", "int16", "int32", "int64", "uint16", "uint32" -> JSON.numberNode(text.isEmpty() ? 0L : Long.decode(text));
            case "float64" -> JSON.numberNode(0.0);
            case "uuid" -> JSON.textNode(Uuid.ZERO_UUID.toString());
            case "string" -> JSON.textNode(text);
            case "bytes" -> JSON.binaryNode(new byte[0]);
            default -> struct(fieldsOf(type, field), version, 0.0);
        };
    }

    private JsonNode value(String type, JsonNode field, int version, double filled) {
        if (type.startsWith("[]")) {
            ArrayNode list = JSON.arrayNode();
            int length = random.nextInt(12) == 0 ? 5 : random.nextInt(3);
            for (int i = 0; i < length; i++) {
                list.add(value(type.substring(2), field, version, filled));
            }
            return list;
        }
        return switch (type) {
            case "bool" -> JSON.booleanNode(random.nextBoolean());
            case "int8" -> JSON.numberNode((byte) number());
            case "int16" -> JSON.numberNode((short) number());
            case "int32" -> JSON.numberNode((int) number());
            case "int64" -> JSON.numberNode(number());
            case "uint16" -> JSON.numberNode(number() & 0xffffL);
            case "uint32" -> JSON.numberNode(number() & 0xffffffffL);
            case "float64" -> JSON.numberNode(random.nextGaussian());
            case "uuid" -> JSON.textNode(new Uuid(random.nextLong(), random.nextLong()).toString());
            case "string" -> JSON.textNode(text());
            case "bytes", "records" -> JSON.binaryNode(bytes());
            default -> struct(fieldsOf(type, field), version, filled);
        };
    }

    private JsonNode fieldsOf(String type, JsonNode field) {
        return (field.has("fields") ? field : structs.get(type)).get("fields");
    }

    private long number() {
        return switch (random.nextInt(5)) {
            case 0 -> random.nextInt(4) - 1;
            case 1 -> random.nextBoolean() ? Long.MAX_VALUE : Long.MIN_VALUE;
            default -> random.nextLong();
        };
    }

    private String text() {
        StringBuilder text = new StringBuilder();
        // 127 and 128 bytes take one and two bytes of length.
        int length = switch (random.nextInt(16)) {
            case 0 -> 0;
            case 1 -> 126;
            case 2 -> 127;
            case 3 -> 128;
            default -> 1 + random.nextInt(8);
        };
        for (int i = 0; i < length; i++) {
            text.append((char) ('a' + random.nextInt(26)));
        }
        return random.nextInt(16) == 0 ? text + "\u00e9\u2192\ud83e\udd8a" : text.toString();
    }

    private byte[] bytes() {
        byte[] bytes = new byte[random.nextInt(24) == 0 ? 1500 : random.nextInt(24)];
        random.nextBytes(bytes);
        return bytes;
    }
}
