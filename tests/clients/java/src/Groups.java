package clients;

import static clients.Facts.CONNECTION;
import static clients.Facts.equal;
import static clients.Facts.fails;
import static clients.Facts.get;
import static clients.Facts.newName;
import static clients.Facts.that;
import static clients.Facts.waitFor;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ClassicGroupState;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.InvalidRegularExpression;

/** Subscribed consumers share partitions in both group protocols; the admin client sees and moves their groups. */
final class Groups {
    private static final String EAGER = "org.apache.kafka.clients.consumer.RangeAssignor";
    private static final String COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";

    private final Administration administration;

    Groups(Administration administration) {
        this.administration = administration;
    }

    void register(Facts facts) {
        facts.add("eager_members_share_and_a_later_one_goes_on_where_they_committed", () -> sharing(classic(EAGER)));
        facts.add("cooperative_members_share_and_a_later_one_goes_on_where_they_committed", () -> sharing(classic(COOPERATIVE)));
        facts.add("consumer_protocol_members_share_and_a_later_one_goes_on_where_they_committed", () -> sharing(consumerProtocol()));
        facts.add("a_cooperative_member_keeps_what_need_not_move", () -> keeping(classic(COOPERATIVE)));
        facts.add("a_consumer_protocol_member_keeps_what_need_not_move", () -> keeping(consumerProtocol()));
        facts.add("a_pattern_subscribes_to_topics_that_come_later", () -> pattern(classic(EAGER)));
        facts.add("the_broker_resolves_a_pattern_of_the_consumer_protocol", this::brokersPattern);
        facts.add("a_member_that_was_thrown_out_cannot_commit", this::thrownOut);
        facts.add("a_group_upgrades_and_downgrades_between_the_protocols_online", this::migration);
        facts.add("static_members_change_the_protocol_one_by_one_and_back", this::staticMigration);
        facts.add("admin_lists_and_describes_groups_of_both_protocols", this::listing);
        facts.add("admin_moves_and_deletes_offsets_and_groups", this::moving);
        facts.add("admin_removes_static_members", () -> removing(classic(EAGER)));
        facts.add("admin_removes_static_members_of_the_consumer_protocol", () -> removing(consumerProtocol()));
    }

    private static Map<String, Object> classic(String assignor) {
        return Map.of("partition.assignment.strategy", assignor);
    }

    private static Map<String, Object> consumerProtocol() {
        return Map.of("group.protocol", "consumer");
    }

    /** Of a static member. */
    private static Map<String, Object> named(String instance, Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("group.instance.id", instance);
        return all;
    }

    /** A member of a group; all are polled in turns by one thread. */
    private static final class Member implements AutoCloseable, ConsumerRebalanceListener {
        final Consumer<byte[], byte[]> consumer;
        final Set<TopicPartition> owned = new HashSet<>();
        final List<TopicPartition> givenUp = new ArrayList<>();
        final Set<String> got = new HashSet<>();

        Member(String group, Map<String, Object> settings) {
            Map<String, Object> all = new HashMap<>(settings);
            all.put("group.id", group);
            all.put("auto.offset.reset", "earliest");
            all.put("metadata.max.age.ms", "1000");
            if (!settings.containsKey("group.protocol")) {
                all.put("heartbeat.interval.ms", "500");
                all.put("session.timeout.ms", "6000");
            }
            consumer = Records.consumer(all);
        }

        Member subscribe(String topic) {
            consumer.subscribe(List.of(topic), this);
            return this;
        }

        void poll() {
            for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(20))) {
                got.add(r.partition() + ":" + r.offset());
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            owned.addAll(partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            owned.removeAll(partitions);
            givenUp.addAll(partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            owned.removeAll(partitions);
        }

        @Override
        public void close() {
            consumer.close();
        }
    }

    private static void until(List<Member> members, String what, java.util.function.BooleanSupplier holds) {
        long end = System.nanoTime() + 40_000_000_000L;
        while (!holds.getAsBoolean()) {
            that(System.nanoTime() < end, what + ": not in time; owned " + members.stream().map(m -> m.owned).toList());
            members.forEach(Member::poll);
        }
    }

    /** All partitions have an owner, and none has two. */
    private static boolean share(int partitions, Member... members) {
        Set<TopicPartition> all = new HashSet<>();
        int owned = 0;
        for (Member member : members) {
            if (member.owned.isEmpty()) {
                return false;
            }
            all.addAll(member.owned);
            owned += member.owned.size();
        }
        return all.size() == partitions && owned == partitions;
    }

    private static void fill(String topic, int partitions, int each) {
        try (Producer<byte[], byte[]> producer = Records.producer(Map.of())) {
            for (int i = 0; i < partitions * each; i++) {
                producer.send(new ProducerRecord<>(topic, i % partitions, null, ("" + i).getBytes(StandardCharsets.UTF_8)));
            }
        }
    }

    private void sharing(Map<String, Object> settings) throws Exception {
        String topic = administration.create("share", 4, Map.of());
        String group = newName("group");
        fill(topic, 4, 50);
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        try (Member one = new Member(group, settings).subscribe(topic); Member two = new Member(group, settings).subscribe(topic)) {
            until(List.of(one, two), "two members share", () -> share(4, one, two));
            until(List.of(one, two), "every record", () -> {
                Set<String> all = new HashSet<>(one.got);
                all.addAll(two.got);
                return all.size() == 200;
            });
            for (Member member : List.of(one, two)) {
                ends.clear();
                member.owned.forEach(p -> ends.put(p, new OffsetAndMetadata(50, "half")));
                member.consumer.commitSync(ends);
            }
        }
        fill(topic, 4, 1);
        try (Member three = new Member(group, settings).subscribe(topic)) {
            until(List.of(three), "the records behind the committed offsets", () -> three.got.size() >= 4);
            equal(three.got, Set.of("0:50", "1:50", "2:50", "3:50"), "what a later member reads");
            TopicPartition first = new TopicPartition(topic, 0);
            equal(three.consumer.committed(Set.of(first)).get(first).metadata(), "half", "metadata");
        }
    }

    private void keeping(Map<String, Object> settings) throws Exception {
        String topic = administration.create("keep", 6, Map.of());
        String group = newName("group");
        try (Member one = new Member(group, settings).subscribe(topic)) {
            until(List.of(one), "one member owns all", () -> share(6, one));
            try (Member two = new Member(group, settings).subscribe(topic)) {
                until(List.of(one, two), "two members share", () -> share(6, one, two));
                equal(one.givenUp.size(), 3, "partitions the first gave up");
            }
            until(List.of(one), "what the second left comes back", () -> share(6, one));
            equal(one.givenUp.size(), 3, "partitions the first gave up in all");
        }
    }

    private void pattern(Map<String, Object> settings) throws Exception {
        String prefix = newName("pattern");
        String group = newName("group");
        String early = administration.create(prefix + "-early", 1, Map.of());
        try (Member one = new Member(group, settings)) {
            one.consumer.subscribe(Pattern.compile(prefix + "-.*"), one);
            until(List.of(one), "the topic that is there", () -> one.owned.contains(new TopicPartition(early, 0)));
            String late = administration.create(prefix + "-late", 1, Map.of());
            until(List.of(one), "the topic that came later", () -> one.owned.contains(new TopicPartition(late, 0)));
        }
    }

    private void brokersPattern() throws Exception {
        String prefix = newName("resolved");
        String early = administration.create(prefix + "-early", 1, Map.of());
        administration.create("not-" + prefix, 1, Map.of());
        try (Member one = new Member(newName("group"), consumerProtocol()); Member wrong = new Member(newName("group"), consumerProtocol())) {
            one.consumer.subscribe(new SubscriptionPattern(prefix + "-.*"), one);
            until(List.of(one), "the topic that is there", () -> one.owned.contains(new TopicPartition(early, 0)));
            String late = administration.create(prefix + "-late", 1, Map.of());
            until(List.of(one), "the topic that came later", () -> one.owned.contains(new TopicPartition(late, 0)));
            equal(one.owned, Set.of(new TopicPartition(early, 0), new TopicPartition(late, 0)), "nothing else");
            wrong.consumer.subscribe(new SubscriptionPattern("("), wrong);
            boolean[] isRefused = {false};
            until(List.of(one), "the refusal of half a pattern", () -> {
                try {
                    wrong.poll();
                } catch (InvalidRegularExpression expected) {
                    isRefused[0] = true;
                }
                return isRefused[0];
            });
        }
    }

    private void thrownOut() throws Exception {
        String topic = administration.create("out", 1, Map.of());
        String group = newName("group");
        fill(topic, 1, 10);
        Map<String, Object> impatient = new HashMap<>(classic(EAGER));
        impatient.put("max.poll.interval.ms", "1500");
        try (Member slow = new Member(group, impatient).subscribe(topic);
                Member other = new Member(group, classic(EAGER))) {
            until(List.of(slow), "ten records", () -> slow.got.size() == 10);
            other.subscribe(topic);
            until(List.of(other), "the other takes over", () -> share(1, other));
            boolean refused = false;
            try {
                slow.consumer.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(5)));
            } catch (CommitFailedException expected) {
                refused = true;
            }
            that(refused, "the commit of a member that was thrown out was taken");
            TopicPartition first = new TopicPartition(topic, 0);
            equal(other.consumer.committed(Set.of(first)).get(first), null, "committed offset");
        }
    }

    private void migration() throws Exception {
        String topic = administration.create("move", 4, Map.of());
        String group = newName("group");
        try (Member old = new Member(group, classic(COOPERATIVE)).subscribe(topic)) {
            until(List.of(old), "one classic member owns all", () -> share(4, old));
            try (Member young = new Member(group, consumerProtocol()).subscribe(topic)) {
                until(List.of(old, young), "one of each protocol share", () -> share(4, old, young));
                equal(type(group), GroupType.CONSUMER, "type with a consumer protocol member");
            }
            until(List.of(old), "the classic member owns all again", () -> share(4, old));
            waitFor("a classic group again", () -> {
                old.poll();
                return type(group) == GroupType.CLASSIC;
            });
        }
    }

    /** Each is closed and started again with the other protocol; the last to go back takes the group with it. */
    private void staticMigration() throws Exception {
        String topic = administration.create("move", 4, Map.of());
        String group = newName("group");
        Member[] members = new Member[2];
        try {
            for (int i = 0; i < members.length; i++) {
                members[i] = new Member(group, named("desk-" + i, classic(COOPERATIVE))).subscribe(topic);
            }
            until(List.of(members), "two classic members share", () -> share(4, members));
            for (GroupType type : List.of(GroupType.CONSUMER, GroupType.CLASSIC)) {
                Map<String, Object> settings = type == GroupType.CONSUMER ? consumerProtocol() : classic(COOPERATIVE);
                for (int i = 0; i < members.length; i++) {
                    members[i].close();
                    members[i] = new Member(group, named("desk-" + i, settings)).subscribe(topic);
                    until(List.of(members), "member " + i + " takes its place as " + type, () -> share(4, members));
                    equal(type(group), i == 1 ? type : GroupType.CONSUMER, "type after member " + i + " is " + type);
                }
            }
        } finally {
            for (Member member : members) {
                if (member != null) {
                    member.close();
                }
            }
        }
    }

    private GroupType type(String group) throws Exception {
        try (Admin admin = Admin.create(CONNECTION)) {
            return get(admin.listGroups().all()).stream()
                    .filter(listing -> listing.groupId().equals(group))
                    .map(listing -> listing.type().orElse(GroupType.UNKNOWN))
                    .findFirst()
                    .orElse(GroupType.UNKNOWN);
        }
    }

    private void listing() throws Exception {
        String topic = administration.create("list", 2, Map.of());
        Map<String, GroupType> groups = new TreeMap<>();
        groups.put(newName("classic"), GroupType.CLASSIC);
        groups.put(newName("consumer"), GroupType.CONSUMER);
        try (Admin admin = Admin.create(CONNECTION)) {
            for (Map.Entry<String, GroupType> group : groups.entrySet()) {
                Map<String, Object> settings = group.getValue() == GroupType.CLASSIC ? classic(EAGER) : consumerProtocol();
                try (Member member = new Member(group.getKey(), settings).subscribe(topic)) {
                    until(List.of(member), "one member owns all", () -> share(2, member));
                    GroupListing listed = get(admin.listGroups().all()).stream()
                            .filter(g -> g.groupId().equals(group.getKey())).findFirst().orElseThrow();
                    equal(listed.type().orElseThrow(), group.getValue(), "type");
                    equal(listed.groupState().orElseThrow(), GroupState.STABLE, "listed state");
                    ConsumerGroupDescription described =
                            get(admin.describeConsumerGroups(List.of(group.getKey())).describedGroups().get(group.getKey()));
                    equal(described.groupState(), GroupState.STABLE, "state");
                    equal(described.type(), group.getValue(), "described type");
                    equal(described.members().size(), 1, "members");
                    MemberDescription one = described.members().iterator().next();
                    equal(one.assignment().topicPartitions(), member.owned, "assignment");
                    equal(one.host(), "/127.0.0.1", "host");
                    var classic = admin.describeClassicGroups(List.of(group.getKey())).describedGroups().get(group.getKey());
                    if (group.getValue() == GroupType.CLASSIC) {
                        equal(get(classic).state(), ClassicGroupState.STABLE, "classic state");
                        equal(get(classic).protocol() + " " + get(classic).protocolData(), "consumer range", "classic protocol");
                        equal(get(classic).members().iterator().next().consumerId(), one.consumerId(), "classic member");
                    } else {
                        fails(classic, GroupIdNotFoundException.class, "a consumer group is no classic group");
                    }
                }
            }
            fails(admin.describeConsumerGroups(List.of("no-such-group")).all(), GroupIdNotFoundException.class, "no such group");
        }
    }

    private void moving() throws Exception {
        String topic = administration.create("moving", 2, Map.of());
        String group = newName("group");
        TopicPartition first = new TopicPartition(topic, 0);
        try (Admin admin = Admin.create(CONNECTION)) {
            try (Member member = new Member(group, classic(EAGER)).subscribe(topic)) {
                until(List.of(member), "one member owns all", () -> share(2, member));
                member.consumer.commitSync(Map.of(first, new OffsetAndMetadata(3)));
                fails(admin.deleteConsumerGroups(List.of(group)).all(), GroupNotEmptyException.class, "deleting it now");
                fails(admin.deleteConsumerGroupOffsets(group, Set.of(first)).all(), GroupSubscribedToTopicException.class,
                        "deleting its offsets now");
            }
            get(admin.alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(7, "by hand"))).all());
            OffsetAndMetadata moved = get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).get(first);
            equal(moved.offset() + " " + moved.metadata(), "7 by hand", "moved");
            get(admin.deleteConsumerGroupOffsets(group, Set.of(first)).all());
            equal(get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).get(first), null, "deleted offset");
            get(admin.deleteConsumerGroups(List.of(group)).all());
            fails(admin.describeConsumerGroups(List.of(group)).all(), GroupIdNotFoundException.class, "a deleted group");
        }
    }

    private void removing(Map<String, Object> settings) throws Exception {
        String topic = administration.create("removing", 1, Map.of());
        String group = newName("group");
        try (Admin admin = Admin.create(CONNECTION)) {
            try (Member member = new Member(group, named("desk-1", settings)).subscribe(topic)) {
                until(List.of(member), "one member owns all", () -> share(1, member));
            }
            equal(members(admin, group), 1, "a static member that closed stays");
            get(admin.removeMembersFromConsumerGroup(group,
                    new org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions(Set.of(
                            new org.apache.kafka.clients.admin.MemberToRemove("desk-1")))).all());
            waitFor("no member is left", () -> members(admin, group) == 0);
        }
    }

    private static int members(Admin admin, String group) throws Exception {
        return get(admin.describeConsumerGroups(List.of(group)).describedGroups().get(group)).members().size();
    }
}
