package clients;

import java.util.Locale;
import org.apache.flink.runtime.util.EnvironmentInformation;

/** Flink with its Kafka connector: jobs on a cluster inside this process. */
final class FlinkMain {
    public static void main(String[] args) throws Exception {
        Locale.setDefault(Locale.ROOT);
        System.out.println("version " + EnvironmentInformation.getVersion());
        Facts facts = new Facts();
        new FlinkJobs().register(facts);
        System.exit(facts.runAll() == 0 ? 0 : 1);
    }
}
