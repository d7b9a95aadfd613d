package clients;

import java.util.Locale;

/** Kafka's own Java clients: producer, consumers, admin client. */
final class Main {
    public static void main(String[] args) throws Exception {
        Locale.setDefault(Locale.ROOT);
        System.out.println("version " + Facts.kafkaVersion());
        Facts facts = new Facts();
        int failed;
        try (Administration administration = new Administration(); Records records = new Records(administration);
                Transactions transactions = new Transactions(); Cluster cluster = new Cluster(administration)) {
            records.register(facts);
            transactions.register(facts);
            new Moves(administration).register(facts);
            administration.register(facts);
            cluster.register(facts);
            new Groups(administration).register(facts);
            new Load(administration).register(facts);
            new Rights(administration).register(facts);
            failed = facts.runAll();
        }
        System.exit(failed == 0 ? 0 : 1);
    }
}
