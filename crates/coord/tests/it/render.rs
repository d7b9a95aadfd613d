//! Answers as short text.

use coord::group::Answer;
use coord::group::ask::{Described, FetchedTopic, JoinRefusal, Joined};
use wire::ErrorCode;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn result(result: &Result<(), ErrorCode>) -> &'static str {
    match result {
        Ok(()) => "ok",
        Err(code) => code.name(),
    }
}

fn results(all: &[Result<(), ErrorCode>]) -> String {
    all.iter().map(result).collect::<Vec<_>>().join(" ")
}

pub(crate) fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Join(Ok(joined)) => join(joined),
        Answer::Join(Err(JoinRefusal { code, member_id })) => match &**member_id {
            "" => code.name().to_owned(),
            id => format!("{} as {id}", code.name()),
        },
        Answer::Sync(Ok(synced)) => {
            // The assignment of a consumer group is binary.
            if synced.assignment.contains(&0) {
                format!("gets {} bytes", synced.assignment.len())
            } else {
                format!("gets {}", text(&synced.assignment))
            }
        }
        Answer::Heartbeat(done) | Answer::Delete(done) => result(done).to_owned(),
        Answer::Leave(Ok(done))
        | Answer::DeleteOffsets(Ok(done))
        | Answer::Commit(done)
        | Answer::TxnCommit(done) => results(done),
        Answer::FetchOffsets(Ok(topics)) => offsets(topics),
        Answer::Sync(Err(code))
        | Answer::Leave(Err(code))
        | Answer::DeleteOffsets(Err(code))
        | Answer::FetchOffsets(Err(code)) => code.name().to_owned(),
        Answer::ConsumerHeartbeat(Ok(standing)) => format!("epoch {}", standing.member_epoch),
        Answer::ConsumerHeartbeat(Err(refusal))
        | Answer::Describe(Err(refusal))
        | Answer::ConsumerDescribe(Err(refusal)) => refusal.code.name().to_owned(),
        Answer::Describe(Ok(group)) => describe(group),
        Answer::List(groups) => {
            let groups = groups.iter().map(|group| {
                let protocol_type = group.protocol_type.as_deref().unwrap_or_default();
                let (kind, state) = (group.state.kind().name(), group.state.name());
                format!("{}:{kind}:{protocol_type}:{state}", group.group_id)
            });
            groups.collect::<Vec<_>>().join(" ")
        }
        Answer::ConsumerDescribe(Ok(group)) => {
            let members = group.members.iter().map(|member| member.member_id.as_str());
            format!(
                "{} {}",
                group.state.name(),
                members.collect::<Vec<_>>().join(",")
            )
        }
    }
}

fn join(joined: &Joined) -> String {
    let mut text = format!(
        "joined {} {} led by {}",
        joined.generation,
        joined.protocol.as_deref().unwrap_or("-"),
        joined.leader.as_deref().unwrap_or_default()
    );
    if !joined.members.is_empty() {
        let mut members: Vec<&str> = joined
            .members
            .iter()
            .map(|m| m.member_id.as_str())
            .collect();
        members.sort_unstable();
        text += &format!(" of {}", members.join(","));
    }
    if joined.skip_assignment {
        text += " skip";
    }
    text
}

fn offsets(topics: &[FetchedTopic]) -> String {
    let partitions = topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(move |p| (topic, p)));
    let each = partitions.map(|(topic, p)| {
        let name = topic.name.as_deref().unwrap_or_default();
        let at = format!("{name}:{}", p.index);
        let found = match &p.found {
            Ok(Some(found)) => found,
            Ok(None) => return format!("{at}=-1"),
            Err(code) => return format!("{at}={}", code.name()),
        };
        let mut text = format!("{at}={}", found.offset);
        if found.leader_epoch.0 >= 0 {
            text += &format!("@{}", found.leader_epoch);
        }
        if !found.metadata.is_empty() {
            text += &format!("/{}", found.metadata);
        }
        text
    });
    each.collect::<Vec<_>>().join(" ")
}

fn describe(group: &Described) -> String {
    let mut words = vec![group.state.name().to_owned()];
    if let Some(protocol_type) = &group.protocol_type {
        let protocol = group.protocol.as_deref().unwrap_or_default();
        words.push(format!("{protocol_type}/{protocol}"));
    }
    for member in &group.members {
        let instance = member.instance_id.as_deref().map(|id| format!("({id})"));
        words.push(format!(
            "{}{}={}",
            member.member_id,
            instance.unwrap_or_default(),
            text(&member.assignment)
        ));
    }
    words.join(" ")
}
