//! Whether a store keeps what the tier rests on: conditions of writes above all. A store that ignores them would have two owners of one log.
//!
//! One object of a name that nobody else has is made, replaced, read and deleted; each answer is held against the one that is due.

use bytes::Bytes;
use env::bucket::{ETag, Op, Outcome, Part, Trouble, When};

const FIRST: &[u8] = b"the first content";
const SECOND: &[u8] = b"another content, and a longer one";

/// The verdict on one property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A fit store does this.
    pub property: &'static str,
    /// The answer that came instead; `None` if it is as it should be.
    pub problem: Option<String>,
}

type Answer = Result<Outcome, Trouble>;

/// A property, the operation that shows it, and what is wrong with an answer.
struct Step {
    property: &'static str,
    op: fn(&Check) -> Op,
    problem: fn(&mut Check, &Answer) -> Option<String>,
}

/// A check under way: [`Check::next`] says what to ask, [`Check::take`] is told the answer.
pub struct Check {
    name: String,
    /// Of the first content, and of the second.
    etags: [Option<ETag>; 2],
    at: usize,
    findings: Vec<Finding>,
}

const STEPS: [Step; 12] = [
    Step {
        property: "makes an object",
        op: |check| check.put(FIRST, When::Absent),
        problem: |check, answer| check.keep_etag(0, answer),
    },
    Step {
        property: "refuses to make it twice",
        op: |check| check.put(SECOND, When::Absent),
        problem: |_, answer| unless(*answer == Err(Trouble::Taken), answer),
    },
    Step {
        property: "reads what was written",
        op: |check| check.get(Part::Whole),
        problem: |check, answer| {
            let etag = check.etags[0].clone();
            let is_right = matches!(answer, Ok(Outcome::Got { content, etag: told, .. })
                if content == FIRST && told.as_ref().is_none_or(|told| Some(told) == etag.as_ref()));
            unless(is_right, answer)
        },
    },
    Step {
        property: "replaces it for the one who has its etag",
        op: |check| check.put(SECOND, When::Still(check.etag(0))),
        problem: |check, answer| check.keep_etag(1, answer),
    },
    Step {
        property: "refuses an etag of before",
        op: |check| check.put(FIRST, When::Still(check.etag(0))),
        problem: |_, answer| unless(*answer == Err(Trouble::Taken), answer),
    },
    Step {
        property: "reads a part",
        op: |check| check.get(Part::Range(2..9)),
        problem: |_, answer| unless_read(&SECOND[2..9], answer),
    },
    Step {
        property: "reads a part that ends behind it",
        op: |check| check.get(Part::Range(30..100)),
        problem: |_, answer| unless_read(&SECOND[30..], answer),
    },
    Step {
        property: "reads the end",
        op: |check| check.get(Part::Last(5)),
        problem: |_, answer| unless_read(&SECOND[SECOND.len() - 5..], answer),
    },
    Step {
        property: "lists it",
        op: |check| Op::List {
            prefix: check.name.clone(),
            after: None,
        },
        problem: |check, answer| {
            let is_right = matches!(answer, Ok(Outcome::Listed { objects, has_more: false })
                if matches!(&objects[..], [one] if one.name == check.name && one.bytes == SECOND.len() as u64));
            unless(is_right, answer)
        },
    },
    Step {
        property: "deletes it",
        op: Check::delete,
        problem: |_, answer| unless(*answer == Ok(Outcome::Deleted), answer),
    },
    Step {
        property: "has it no longer",
        op: |check| check.get(Part::Whole),
        problem: |_, answer| unless(*answer == Err(Trouble::Missing), answer),
    },
    Step {
        property: "deletes what is not there",
        op: Check::delete,
        problem: |_, answer| unless(*answer == Ok(Outcome::Deleted), answer),
    },
];

impl Check {
    /// A check by an object of this name, below the prefix of the store.
    #[must_use]
    pub fn new(name: String) -> Check {
        Check {
            name,
            etags: [None, None],
            at: 0,
            findings: Vec::new(),
        }
    }

    /// The next question; `None` once there is a verdict.
    #[must_use]
    pub fn next(&self) -> Option<Op> {
        STEPS.get(self.at).map(|step| (step.op)(self))
    }

    /// The answer to that. A store that cannot be worked with is asked no further.
    pub fn take(&mut self, answer: &Answer) {
        let Some(step) = STEPS.get(self.at) else {
            return;
        };
        let problem = (step.problem)(self, answer);
        let is_over = matches!(
            answer,
            Err(Trouble::Refused(_)
                | Trouble::Unreachable(_)
                | Trouble::NoAnswer(_)
                | Trouble::Failed(_))
        );
        self.findings.push(Finding {
            property: step.property,
            problem,
        });
        self.at = if is_over { STEPS.len() } else { self.at + 1 };
    }

    /// The properties that were looked at.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// True if all properties were looked at, and all hold.
    #[must_use]
    pub fn is_fit(&self) -> bool {
        self.findings.len() == STEPS.len() && self.findings.iter().all(|it| it.problem.is_none())
    }

    fn put(&self, content: &'static [u8], when: When) -> Op {
        Op::Put {
            name: self.name.clone(),
            content: vec![Bytes::from_static(content)],
            when,
        }
    }

    fn get(&self, part: Part) -> Op {
        let name = self.name.clone();
        Op::Get { name, part }
    }

    fn delete(&self) -> Op {
        let names = vec![self.name.clone()];
        Op::Delete { names }
    }

    fn etag(&self, of: usize) -> ETag {
        // Without an answer to the write, one that no object has.
        self.etags[of]
            .clone()
            .unwrap_or_else(|| ETag("none".to_owned()))
    }

    fn keep_etag(&mut self, of: usize, answer: &Answer) -> Option<String> {
        match answer {
            Ok(Outcome::Put { etag }) => {
                self.etags[of] = Some(etag.clone());
                None
            }
            _ => unless(false, answer),
        }
    }
}

/// The answer, unless that is right.
fn unless(is_right: bool, answer: &Answer) -> Option<String> {
    (!is_right).then(|| match answer {
        Ok(Outcome::Put { .. }) => "it wrote the object".to_owned(),
        Ok(Outcome::Got { content, .. }) => format!("it answered {} bytes", content.len()),
        Ok(Outcome::Deleted) => "it deleted".to_owned(),
        Ok(Outcome::Listed { objects, .. }) => format!("it listed {} objects", objects.len()),
        Err(trouble) => trouble.to_string(),
    })
}

fn unless_read(wanted: &[u8], answer: &Answer) -> Option<String> {
    let is_right = matches!(answer, Ok(Outcome::Got { content, bytes, .. })
        if content == wanted && *bytes == SECOND.len() as u64);
    unless(is_right, answer)
}
