package clients;

import static clients.Facts.BOOTSTRAP;
import static clients.Facts.CONNECTION;
import static clients.Facts.equal;
import static clients.Facts.fails;
import static clients.Facts.get;
import static clients.Facts.newName;
import static clients.Facts.that;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.ResourceNotFoundException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.StringSerializer;

/** A user is made, and rules about it; they are obeyed within a second, and deleted. */
final class Rights {
    private final Administration administration;

    Rights(Administration administration) {
        this.administration = administration;
    }

    void register(Facts facts) {
        facts.addSpecial("users_and_rules_are_made_obeyed_and_deleted", this::rights);
    }

    private void rights() throws Exception {
        String topic = administration.create("rights", 1, Map.of());
        String user = newName("eva");
        String password = System.getenv("ESKER_SASL_PASSWORD") + "-" + user; // found as the run's is, wherever it leaks to
        Map<String, Object> own = new HashMap<>(CONNECTION);
        own.putAll(Map.of("bootstrap.servers", BOOTSTRAP, "sasl.mechanism", "SCRAM-SHA-512", "max.block.ms", 10_000, "sasl.jaas.config",
            "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"" + user + "\" password=\"" + password + "\";"));
        UserScramCredentialDeletion deletion = new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512);
        try (Admin admin = Admin.create(CONNECTION)) {
            ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096);
            get(admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user, info, password))).all());
            equal(get(admin.describeUserScramCredentials(List.of(user)).description(user)).credentialInfos(), List.of(info), "the user");
            obeyed(admin, topic, user, own);
            get(admin.alterUserScramCredentials(List.of(deletion)).all());
            fails(admin.describeUserScramCredentials(List.of(user)).description(user), ResourceNotFoundException.class, "the deleted user");
            fails(admin.alterUserScramCredentials(List.of(deletion)).all(), ResourceNotFoundException.class, "deleting it again");
        }
        try (Admin late = Admin.create(own)) {
            fails(late.describeCluster().nodes(), SaslAuthenticationException.class, "who is no user any more");
        }
    }

    private static void obeyed(Admin admin, String topic, String user, Map<String, Object> own) throws Exception {
        ResourcePattern place = new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL);
        AclBinding rule = new AclBinding(place, new AccessControlEntry("User:" + user, "*", AclOperation.WRITE, AclPermissionType.ALLOW));
        AclBindingFilter all = new AclBindingFilter(ResourcePatternFilter.ANY,
            new AccessControlEntryFilter("User:" + user, null, AclOperation.ANY, AclPermissionType.ANY));
        try (Admin asked = Admin.create(own)) {
            Callable<KafkaFuture<?>> sees = () -> asked.describeTopics(List.of(topic)).allTopicNames();
            fails(sees.call(), TopicAuthorizationException.class, "describing without a rule");
            equal(written(topic, own), TopicAuthorizationException.class, "writing without a rule");
            fails(asked.createAcls(List.of(rule)).all(), ClusterAuthorizationException.class, "making rules without a rule");
            fails(asked.describeAcls(all).values(), ClusterAuthorizationException.class, "listing rules without a rule");
            get(admin.createAcls(List.of(rule)).all());
            within(1, sees, null, "describing, as who may write may");
            equal(written(topic, own), null, "writing by a rule");
            equal(get(admin.describeAcls(all).values()), List.of(rule), "rules");
            Collection<AclBinding> deleted = get(admin.deleteAcls(List.of(all)).all());
            equal(List.copyOf(deleted), List.of(rule), "rules that were deleted");
            within(1, sees, TopicAuthorizationException.class, "describing after the rule went");
            equal(written(topic, own), TopicAuthorizationException.class, "writing after the rule went");
        }
    }

    /** The kind of error that a record comes back with, or null. */
    private static Class<?> written(String topic, Map<String, Object> own) throws Exception {
        try (Producer<String, String> producer = new KafkaProducer<>(own, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, "x")).get(Facts.WAIT_SECONDS, TimeUnit.SECONDS);
            return null;
        } catch (ExecutionException error) {
            return error.getCause().getClass();
        }
    }

    /** Whoever asks later than so many seconds after a change is told what it says. */
    private static void within(int seconds, Callable<KafkaFuture<?>> ask, Class<?> want, String what) throws Exception {
        long change = System.nanoTime();
        while (true) {
            long begin = System.nanoTime();
            Class<?> got = null;
            try {
                get(ask.call());
            } catch (ExecutionException error) {
                got = error.getCause().getClass();
            }
            if (got == want) {
                return;
            }
            that(begin - change < TimeUnit.SECONDS.toNanos(seconds), what + ": " + got + " instead of " + want);
            Thread.sleep(20);
        }
    }
}
