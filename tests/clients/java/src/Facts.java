package clients;

import java.io.IOException;
import java.io.InputStream;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.errors.TopicExistsException;

/** Runs facts one after another and prints one result line each; one that fails does not stop the next. */
final class Facts {
    static final String BOOTSTRAP = System.getenv().getOrDefault("BOOTSTRAP", "127.0.0.1:9092");
    static final List<String> NODES = List.of(System.getenv().getOrDefault("NODES", BOOTSTRAP).split(","));
    /** Settings that lead a client there; in a run with logins also those by which it says who it is. */
    static final Map<String, Object> CONNECTION = connection();
    /** Of topics that a test makes. */
    static final short FACTOR = Short.parseShort(System.getenv().getOrDefault("FACTOR", "1"));
    /** Times by which waits are longer, where faults go on meanwhile. */
    static final int PATIENCE = Integer.parseInt(System.getenv().getOrDefault("PATIENCE", "1"));
    static final long WAIT_SECONDS = 15 * PATIENCE;

    /** From the clients' jar: the class that knows it has another package in each release. */
    static String kafkaVersion() throws IOException {
        Properties version = new Properties();
        try (InputStream file = KafkaFuture.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            version.load(file);
        }
        return version.getProperty("version");
    }

    private static Map<String, Object> connection() {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", BOOTSTRAP));
        String file = System.getenv("ESKER_SASL_PROPERTIES");
        if (file != null) {
            Properties login = new Properties();
            try (Reader text = Files.newBufferedReader(Path.of(file))) {
                login.load(text);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            login.forEach((name, value) -> settings.put((String) name, value));
        }
        return Map.copyOf(settings);
    }

    /** The same with more settings: names and values in turn. */
    static Map<String, Object> connectionWith(Object... more) {
        Map<String, Object> settings = new HashMap<>(CONNECTION);
        for (int i = 0; i < more.length; i += 2) {
            settings.put((String) more[i], more[i + 1]);
        }
        return settings;
    }

    interface Body {
        void run() throws Exception;
    }

    private record Fact(String name, Body body) {}

    private final List<Fact> facts = new ArrayList<>();

    void add(String name, Body body) {
        facts.add(new Fact(name, body));
    }

    /** A fact that only who asks for it by SPECIAL can have: it needs a broker of another kind. */
    void addSpecial(String name, Body body) {
        if (name.equals(System.getenv("SPECIAL"))) {
            add(name, body);
        }
    }

    int runAll() {
        Pattern only = Pattern.compile(System.getenv().getOrDefault("ONLY", ""));
        int failed = 0;
        for (Fact fact : facts) {
            if (!only.matcher(fact.name).find()) {
                continue;
            }
            long begin = System.nanoTime();
            String reason = null;
            try {
                fact.body.run();
            } catch (Throwable error) {
                error.printStackTrace();
                reason = error.toString().replace('\n', ' ');
                failed++;
            }
            double seconds = (System.nanoTime() - begin) / 1e9;
            System.out.printf(reason == null ? "pass %s %.2f%n" : "fail %s %.2f %s%n", fact.name, seconds, reason);
            System.out.flush();
        }
        return failed;
    }

    static void equal(Object got, Object want, String what) {
        if (!Objects.deepEquals(got, want)) {
            throw new AssertionError(what + ": expected " + brief(want) + ", got " + brief(got));
        }
    }

    static void that(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static <V> V get(KafkaFuture<V> future) throws Exception {
        return future.get(WAIT_SECONDS, TimeUnit.SECONDS);
    }

    /** A topic with a new name was made. If it is there already, an answer was lost and the client asked again. */
    static void made(KafkaFuture<?> future) throws Exception {
        try {
            get(future);
        } catch (ExecutionException error) {
            if (!(error.getCause() instanceof TopicExistsException)) {
                throw error;
            }
        }
    }

    /** The future must fail with this very kind of error. */
    static void fails(KafkaFuture<?> future, Class<? extends Throwable> kind, String what) throws Exception {
        try {
            future.get(WAIT_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            equal(error.getCause().getClass().getSimpleName(), kind.getSimpleName(), what);
            return;
        }
        throw new AssertionError(what + ": expected " + kind.getSimpleName() + ", got no error");
    }

    static void waitFor(String what, java.util.concurrent.Callable<Boolean> holds) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
        while (!holds.call()) {
            that(System.nanoTime() < end, what + ": not within " + WAIT_SECONDS + " s");
            Thread.sleep(20);
        }
    }

    static String newName(String prefix) {
        return prefix + "-" + UUID.randomUUID().toString().substring(0, 8);
    }

    private static String brief(Object value) {
        String text = String.valueOf(value);
        return text.length() <= 300 ? text : text.substring(0, 200) + "... (" + text.length() + " characters)";
    }
}
