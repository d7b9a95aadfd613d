//! Answers as short text.

use coord::group::Answer;
use wire::ErrorCode;
use wire::messages::JoinGroupResponse;
use wire::messages::describe_groups_response::DescribedGroup;
use wire::messages::offset_fetch_response::OffsetFetchResponseGroup;

fn code(number: i16) -> &'static str {
    match ErrorCode::try_from(number) {
        Ok(ErrorCode::None) => "ok",
        Ok(code) => code.name(),
        Err(_) => "no code of Kafka",
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Join(joined) => join(joined),
        Answer::Sync(synced) if synced.error_code == 0 => {
            // What a consumer group assigns is binary.
            match synced.assignment.contains(&0) {
                true => format!("gets {} bytes", synced.assignment.len()),
                false => format!("gets {}", text(&synced.assignment)),
            }
        }
        Answer::Sync(synced) => code(synced.error_code).to_owned(),
        Answer::Heartbeat(beat) => code(beat.error_code).to_owned(),
        Answer::Leave(left) if left.members.is_empty() => code(left.error_code).to_owned(),
        Answer::Leave(left) => {
            assert_eq!(left.error_code, 0);
            let members = left.members.iter().map(|member| code(member.error_code));
            members.collect::<Vec<_>>().join(" ")
        }
        Answer::Commit(committed) => {
            let topics = committed.topics.iter();
            let codes =
                topics.flat_map(|topic| topic.partitions.iter().map(|p| code(p.error_code)));
            codes.collect::<Vec<_>>().join(" ")
        }
        Answer::TxnCommit(committed) => {
            let topics = committed.topics.iter();
            let codes =
                topics.flat_map(|topic| topic.partitions.iter().map(|p| code(p.error_code)));
            codes.collect::<Vec<_>>().join(" ")
        }
        Answer::FetchOffsets(group) => offsets(group),
        Answer::DeleteOffsets(deleted) if deleted.error_code != 0 => {
            code(deleted.error_code).to_owned()
        }
        Answer::DeleteOffsets(deleted) => {
            let topics = deleted.topics.iter();
            let codes =
                topics.flat_map(|topic| topic.partitions.iter().map(|p| code(p.error_code)));
            codes.collect::<Vec<_>>().join(" ")
        }
        Answer::Describe(group) => describe(group),
        Answer::List(groups) => {
            let groups = groups.iter().map(|group| {
                let kind = &group.protocol_type;
                format!(
                    "{}:{}:{kind}:{}",
                    group.group_id, group.group_type, group.group_state
                )
            });
            groups.collect::<Vec<_>>().join(" ")
        }
        Answer::Delete(deleted) => code(deleted.error_code).to_owned(),
        Answer::ConsumerHeartbeat(beat) if beat.error_code == 0 => {
            format!("epoch {}", beat.member_epoch)
        }
        Answer::ConsumerHeartbeat(beat) => code(beat.error_code).to_owned(),
        Answer::ConsumerDescribe(group) if group.error_code != 0 => {
            code(group.error_code).to_owned()
        }
        Answer::ConsumerDescribe(group) => {
            let members = group.members.iter().map(|member| member.member_id.as_str());
            format!(
                "{} {}",
                group.group_state,
                members.collect::<Vec<_>>().join(",")
            )
        }
    }
}

fn join(joined: &JoinGroupResponse) -> String {
    if joined.error_code != 0 {
        return match &*joined.member_id {
            "" => code(joined.error_code).to_owned(),
            id => format!("{} as {id}", code(joined.error_code)),
        };
    }
    let mut text = format!(
        "joined {} {} led by {}",
        joined.generation_id,
        joined.protocol_name.as_deref().unwrap_or("-"),
        joined.leader
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

fn offsets(group: &OffsetFetchResponseGroup) -> String {
    if group.error_code != 0 {
        return code(group.error_code).to_owned();
    }
    let topics = group.topics.iter();
    let partitions = topics.flat_map(|topic| topic.partitions.iter().map(move |p| (topic, p)));
    let each = partitions.map(|(topic, p)| {
        let at = format!("{}:{}", topic.name, p.partition_index);
        if p.error_code != 0 {
            assert_eq!(p.committed_offset, -1);
            return format!("{at}={}", code(p.error_code));
        }
        let mut text = format!("{at}={}", p.committed_offset);
        if p.committed_leader_epoch >= 0 {
            text += &format!("@{}", p.committed_leader_epoch);
        }
        match p.metadata.as_deref() {
            None => text += "/null",
            Some("") => {}
            Some(metadata) => text += &format!("/{metadata}"),
        }
        text
    });
    each.collect::<Vec<_>>().join(" ")
}

fn describe(group: &DescribedGroup) -> String {
    let mut words = vec![group.group_state.clone()];
    if group.error_code != 0 {
        words.push(code(group.error_code).to_owned());
    }
    if !group.protocol_type.is_empty() {
        words.push(format!("{}/{}", group.protocol_type, group.protocol_data));
    }
    for member in &group.members {
        let instance = member
            .group_instance_id
            .as_deref()
            .map(|id| format!("({id})"));
        words.push(format!(
            "{}{}={}",
            member.member_id,
            instance.unwrap_or_default(),
            text(&member.member_assignment)
        ));
    }
    words.join(" ")
}
