//! Questions to the machines, each of a kind that has one type of answer.
//!
//! A machine declares its questions in one table, [`questions!`]. A [`Caller`] remembers the kind of its question, and a [`Reply`] can
//! only be made by a caller: an answer of another kind does not compile.

use std::marker::PhantomData;

use model::Ticket;

/// A question of one kind.
pub trait Question: Sized {
    type Answer;
    /// Any question to the machine, and any answer of it.
    type AnyAsk;
    type AnyAnswer;

    fn into_any(self) -> Self::AnyAsk;
    fn any_answer(answer: Self::Answer) -> Self::AnyAnswer;
    /// The answer, if it is one to a question of this kind.
    fn answer_of(any: Self::AnyAnswer) -> Option<Self::Answer>;
}

/// The one who asked a question of the kind `Q`.
#[derive(Debug)]
pub struct Caller<Q> {
    ticket: Ticket,
    kind: PhantomData<fn(Q)>,
}

impl<Q> Clone for Caller<Q> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q> Copy for Caller<Q> {}

impl<Q> PartialEq for Caller<Q> {
    fn eq(&self, other: &Self) -> bool {
        self.ticket == other.ticket
    }
}

impl<Q: Question> Caller<Q> {
    /// The caller whose question waits under `ticket`.
    pub(crate) fn of(_question: &Q, ticket: Ticket) -> Caller<Q> {
        Caller {
            ticket,
            kind: PhantomData,
        }
    }

    /// For one who will not be answered by the machine.
    pub(crate) fn ticket(self) -> Ticket {
        self.ticket
    }

    pub(crate) fn answer(self, answer: Q::Answer) -> Reply<Q::AnyAnswer> {
        Reply {
            ticket: self.ticket,
            answer: Q::any_answer(answer),
        }
    }
}

/// An answer on its way to the question that waits under its ticket.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply<A> {
    ticket: Ticket,
    answer: A,
}

impl<A> Reply<A> {
    pub fn into_parts(self) -> (Ticket, A) {
        (self.ticket, self.answer)
    }
}

/// Declares the questions of a machine, each with the type of its answer.
macro_rules! questions {
    ($($(#[$doc:meta])* $kind:ident -> $answer:ty;)*) => {
        #[derive(Clone, Debug, PartialEq)]
        pub enum Ask {
            $($kind($kind),)*
        }

        #[derive(Clone, Debug, PartialEq)]
        pub enum Answer {
            $($(#[$doc])* $kind($answer),)*
        }

        $(impl $crate::Question for $kind {
            type Answer = $answer;
            type AnyAsk = Ask;
            type AnyAnswer = Answer;

            fn into_any(self) -> Ask {
                Ask::$kind(self)
            }

            fn any_answer(answer: $answer) -> Answer {
                Answer::$kind(answer)
            }

            fn answer_of(any: Answer) -> Option<$answer> {
                match any {
                    Answer::$kind(answer) => Some(answer),
                    _ => None,
                }
            }
        })*
    };
}
