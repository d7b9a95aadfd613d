package clients;

import java.util.Locale;

/** Kafka Streams: whole applications with their internal topics, state stores and transactions. */
final class StreamsMain {
    public static void main(String[] args) throws Exception {
        Locale.setDefault(Locale.ROOT);
        System.out.println("version " + Facts.kafkaVersion());
        Facts facts = new Facts();
        int failed;
        try (StreamsTopics topics = new StreamsTopics()) {
            new StreamsCounts(topics).register(facts);
            new StreamsJoins(topics).register(facts);
            new StreamsExactlyOnce(topics).register(facts);
            failed = facts.runAll();
        }
        System.exit(failed == 0 ? 0 : 1);
    }
}
