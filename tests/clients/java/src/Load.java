package clients;

import static clients.Facts.equal;
import static clients.Facts.newName;
import static clients.Facts.that;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Numbered records go in and out for LOAD_SECONDS, whatever a broker does to the logins of their clients meanwhile. */
final class Load {
    private static final long AFTERWARDS_SECONDS_MAX = 60;

    private final Administration administration;

    Load(Administration administration) {
        this.administration = administration;
    }

    void register(Facts facts) {
        facts.addSpecial("numbered_records_flow_in_and_out_for_a_while", this::flow);
    }

    private void flow() throws Exception {
        String topic = administration.create("flow", 3, Map.of());
        Queue<String> errors = new ConcurrentLinkedQueue<>();
        Set<Integer> acknowledged = ConcurrentHashMap.newKeySet();
        Thread writer = new Thread(() -> write(topic, acknowledged, errors));
        writer.start();
        Map<Integer, Set<String>> found = new HashMap<>();
        try (Consumer<byte[], byte[]> consumer = Records.consumer(Map.of("group.id", newName("group"), "auto.offset.reset", "earliest"))) {
            consumer.subscribe(List.of(topic));
            long end = Long.MAX_VALUE;
            while (!found.keySet().containsAll(acknowledged) || writer.isAlive()) {
                if (end == Long.MAX_VALUE && !writer.isAlive()) {
                    end = System.nanoTime() + TimeUnit.SECONDS.toNanos(AFTERWARDS_SECONDS_MAX);
                }
                that(System.nanoTime() < end, found.size() + " of " + acknowledged.size() + " records were read");
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(200))) {
                    int number = Integer.parseInt(new String(r.value(), StandardCharsets.UTF_8));
                    found.computeIfAbsent(number, n -> new HashSet<>()).add(r.partition() + ":" + r.offset());
                }
            }
        }
        equal(List.copyOf(errors), List.of(), "errors");
        that(acknowledged.size() > 1_000, "only " + acknowledged.size() + " records");
        that(found.values().stream().allMatch(places -> places.size() == 1), "a record is doubled");
    }

    private static void write(String topic, Set<Integer> acknowledged, Queue<String> errors) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(System.getenv("LOAD_SECONDS")));
        try (Producer<byte[], byte[]> producer = Records.producer(Map.of("acks", "all", "enable.idempotence", true))) {
            for (int i = 0; System.nanoTime() < end; i++) {
                int number = i;
                byte[] value = ("" + number).getBytes(StandardCharsets.UTF_8);
                producer.send(new ProducerRecord<>(topic, value), (at, error) -> {
                    if (error == null) {
                        acknowledged.add(number);
                    } else {
                        errors.add("" + error);
                    }
                });
                if (number % 10 == 0) {
                    Thread.sleep(20);
                }
            }
        } catch (InterruptedException | RuntimeException error) {
            errors.add("" + error);
        }
    }
}
