package clients;

import static clients.Facts.equal;
import static clients.Facts.newName;

import clients.StreamsTopics.Line;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;

/** Joins: two streams within a window of time, a stream with a table, a table with a table through a foreign key. */
final class StreamsJoins {
    private final StreamsTopics topics;

    StreamsJoins(StreamsTopics topics) {
        this.topics = topics;
    }

    void register(Facts facts) {
        facts.add("two_streams_join_what_is_close_in_time", this::streamAndStream);
        facts.add("a_stream_is_joined_with_a_table", this::streamAndTable);
        facts.add("two_tables_join_through_a_foreign_key", this::tableAndTable);
    }

    private void check(StreamsBuilder builder, String out, TreeSet<String> want, int records) throws Exception {
        KafkaStreams streams = StreamsTopics.start(builder.build(), StreamsTopics.settings(newName("join"), newName("one")));
        TreeSet<String> got = new TreeSet<>();
        topics.read(out, new StringDeserializer(), "the joined records", found -> found.size() >= records)
                .forEach(r -> got.add(r.key() + "=" + r.value()));
        StreamsTopics.stop(streams);
        equal(got, want, "what was joined");
    }

    private void streamAndStream() throws Exception {
        String left = topics.create("left", 2);
        String right = topics.create("right", 2);
        String out = topics.create("joined", 1);
        long base = System.currentTimeMillis() - 3_600_000;
        List<Line> lefts = new ArrayList<>();
        List<Line> rights = new ArrayList<>();
        TreeSet<String> want = new TreeSet<>();
        for (int i = 0; i < 200; i++) {
            // The right side comes 0, 2, 4, 6, 8 seconds later; the window is five.
            int delay = i % 5 * 2;
            lefts.add(new Line(i % 2, base + i * 1_000L, "k" + i, "l" + i));
            rights.add(new Line(i % 2, base + (i + delay) * 1_000L, "k" + i, "r" + i));
            if (delay <= 5) {
                want.add("k" + i + "=l" + i + "+r" + i);
            }
        }
        topics.write(left, lefts);
        topics.write(right, rights);
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> other = builder.stream(right);
        builder.<String, String>stream(left)
                .join(other, (l, r) -> l + "+" + r, JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(5), Duration.ofHours(2)))
                .to(out);
        check(builder, out, want, want.size());
    }

    private void streamAndTable() throws Exception {
        String table = topics.create("users", 2);
        String stream = topics.create("visits", 2);
        String out = topics.create("enriched", 1);
        long base = System.currentTimeMillis() - 600_000;
        List<Line> users = new ArrayList<>();
        List<Line> visits = new ArrayList<>();
        TreeSet<String> want = new TreeSet<>();
        for (int user = 0; user < 20; user++) {
            users.add(new Line(user % 2, base, "u" + user, "old"));
            users.add(new Line(user % 2, base + 1, "u" + user, user % 4 == 3 ? null : "name" + user)); // every fourth is deleted
        }
        for (int i = 0; i < 400; i++) {
            int user = i % 25; // the last five are nobody
            visits.add(new Line(user % 2, base + 1_000 + i, "u" + user, "page" + i));
            if (user < 20 && user % 4 != 3) {
                want.add("u" + user + "=page" + i + " by name" + user);
            }
        }
        topics.write(table, users);
        topics.write(stream, visits);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(stream)
                .join(builder.<String, String>table(table), (page, name) -> page + " by " + name)
                .to(out);
        check(builder, out, want, want.size());
    }

    private void tableAndTable() throws Exception {
        String orders = topics.create("orders", 2);
        String products = topics.create("products", 1);
        String out = topics.create("priced", 1);
        long base = System.currentTimeMillis() - 600_000;
        List<Line> sold = new ArrayList<>();
        List<Line> prices = new ArrayList<>();
        TreeSet<String> want = new TreeSet<>();
        for (int product = 0; product < 5; product++) {
            prices.add(new Line(0, base, "p" + product, "" + product * 10));
        }
        for (int order = 0; order < 50; order++) {
            sold.add(new Line(order % 2, base + order, "o" + order, "p" + order % 6)); // nobody sells p5
            if (order % 6 < 5) {
                want.add("o" + order + "=p" + order % 6 + " for " + order % 6 * 10);
            }
        }
        topics.write(products, prices);
        topics.write(orders, sold);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>table(orders)
                .join(builder.<String, String>table(products), product -> product, (product, price) -> product + " for " + price)
                .toStream()
                .to(out);
        check(builder, out, want, want.size());
    }
}
