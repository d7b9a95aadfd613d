//! The questions: for each API rows of targets, and a builder that makes the request for one of them in one version.
//!
//! A request is meant to show who may, not what the API does: members are strangers, producers unknown, changes only validated, so
//! that an asker who may is answered with an error that does not depend on the past. Where a request needs something to destroy,
//! super makes it first.

mod cluster;
mod groups;
mod logs;
mod settings;
mod topics;
mod transactions;

use wire::any::AnyRequest;
use wire::{ApiKey, Uuid};

pub(crate) use logs::produce;
pub(crate) use transactions::init_producer_id;

/// No topic has it.
pub(crate) const GHOST: Uuid = Uuid([0xab; 16]);
/// A member that no group has.
pub(crate) const STRANGER: &str = "stranger";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Of the name `there`: a topic with a record, a group with an offset, an idle transactional id.
    There,
    Absent,
    /// There, but not for many.
    Other,
    /// There, `absent` and `other` in one request.
    Several,
    /// `there` by its topic id.
    ById,
    OtherById,
    /// An id that nothing has.
    Ghost,
    /// All there is.
    All,
    /// A name that nothing has yet; the request may make it.
    Fresh,
    /// A topic of a fresh name, made before.
    MadeTopic,
    MadeTopicById,
    MadeGroup,
    /// A group of the consumer protocol, whose one member reads `there` and `other`.
    MadeConsumers,
    /// A transaction under way in both of them.
    MadeTransaction,
    /// The cluster, or what has no name.
    Cluster,
}

use Target::{Absent, ById, Ghost, MadeTopicById, Other, OtherById, Several, There};

impl Target {
    pub(crate) fn label(self) -> &'static str {
        match self {
            There => "there",
            Absent => "absent",
            Other => "other",
            Several => "several",
            ById => "by-id",
            OtherById => "other-by-id",
            Ghost => "no-such-id",
            Target::All => "all",
            Target::Fresh => "new",
            Target::MadeTopic | Target::MadeGroup => "made",
            Target::MadeConsumers => "consumers",
            Target::MadeTransaction => "transaction",
            MadeTopicById => "made-by-id",
            Target::Cluster => "cluster",
        }
    }

    /// Leaves something behind that listings show.
    pub(crate) fn is_loud(self) -> bool {
        matches!(
            self,
            Target::Fresh
                | Target::MadeTopic
                | MadeTopicById
                | Target::MadeGroup
                | Target::MadeConsumers
                | Target::MadeTransaction
        )
    }

    pub(crate) fn is_by_id(self) -> bool {
        matches!(self, ById | OtherById | Ghost | MadeTopicById)
    }
}

const NAMES: &[Target] = &[There, Absent, Other, Several];

/// A builder is told this.
pub(crate) struct Scene {
    pub(crate) version: i16,
    pub(crate) target: Target,
    pub(crate) fresh: String,
    pub(crate) there_id: Uuid,
    pub(crate) other_id: Uuid,
    pub(crate) fresh_id: Uuid,
}

impl Scene {
    pub(crate) fn names(&self) -> Vec<String> {
        let names: &[&str] = match self.target {
            There => &["there"],
            Absent => &["absent"],
            Other => &["other"],
            Several => &["there", "absent", "other"],
            target if target.is_loud() => &[&self.fresh],
            _ => &[],
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The one name; empty where there is none.
    pub(crate) fn name(&self) -> String {
        self.names().into_iter().next().unwrap_or_default()
    }

    pub(crate) fn id(&self) -> Uuid {
        match self.target {
            ById => self.there_id,
            OtherById => self.other_id,
            Ghost => GHOST,
            MadeTopicById => self.fresh_id,
            _ => Uuid::ZERO,
        }
    }

    /// Topics as they are named in this version: by name below `since`, by id from there on. None where the target has no such form.
    pub(crate) fn topics(&self, since: i16) -> Option<Vec<(String, Uuid)>> {
        if self.target.is_by_id() != (self.version >= since) {
            return None;
        }
        if self.target.is_by_id() {
            return Some(vec![(String::new(), self.id())]);
        }
        Some(
            self.names()
                .into_iter()
                .map(|name| (name, Uuid::ZERO))
                .collect(),
        )
    }
}

pub(crate) struct Row {
    pub(crate) api: ApiKey,
    pub(crate) targets: &'static [Target],
    /// Tells rows of one API apart.
    pub(crate) note: &'static str,
    pub(crate) make: fn(&Scene) -> Option<AnyRequest>,
}

impl Row {
    pub(crate) fn label(&self, target: Target) -> String {
        if self.note.is_empty() {
            target.label().to_owned()
        } else {
            format!("{}-{}", target.label(), self.note)
        }
    }
}

fn row(api: ApiKey, targets: &'static [Target], make: fn(&Scene) -> Option<AnyRequest>) -> Row {
    Row {
        api,
        targets,
        note: "",
        make,
    }
}

/// Another row of an API.
fn noted(
    api: ApiKey,
    note: &'static str,
    targets: &'static [Target],
    make: fn(&Scene) -> Option<AnyRequest>,
) -> Row {
    Row {
        api,
        targets,
        note,
        make,
    }
}

pub(crate) fn all() -> Vec<Row> {
    let parts = [
        logs::rows(),
        topics::rows(),
        groups::rows(),
        transactions::rows(),
        settings::rows(),
        cluster::rows(),
    ];
    parts.into_iter().flatten().collect()
}

/// Answers whose lists follow a hash or a shuffle at one of the brokers: compared as sets.
pub(crate) fn is_ordered(api: ApiKey) -> bool {
    matches!(api, ApiKey::CreateAcls | ApiKey::DeleteAcls)
}
