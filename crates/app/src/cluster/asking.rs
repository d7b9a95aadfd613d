//! Questions that are asked side by side, each on a thread of its own and all within one time.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use client::{Client, Error, Options};
use env::Env;
use model::Instant;

/// An operation on a socket ends so much after its time at most.
const SOCKET_SLACK: Duration = Duration::from_millis(300);

/// Where the answers come from, and until when they may.
#[derive(Clone)]
pub(super) struct Asking {
    pub(super) bootstrap: String,
    pub(super) until: Instant,
    pub(super) timeout: Duration,
    /// Those of each question, but for its time.
    pub(super) options: Options,
}

impl Asking {
    pub(super) fn left(&self, env: &Env) -> Duration {
        self.until.since(env.clock.now())
    }

    /// The same questions at another address.
    pub(super) fn at(&self, address: &str) -> Asking {
        let bootstrap = address.to_owned();
        Asking {
            bootstrap,
            ..self.clone()
        }
    }

    /// The same with less time.
    pub(super) fn for_at_most(&self, time: Duration) -> Asking {
        let env = Env::real();
        let timeout = time.min(self.left(&env));
        Asking {
            until: env.clock.now().plus(timeout),
            timeout,
            ..self.clone()
        }
    }

    /// Runs on a thread of its own, which is left alone when its time is up.
    #[allow(clippy::disallowed_methods)] // the environment's workers take turns, and these calls wait
    pub(super) fn spawn(&self, run: impl FnOnce(&Env, Options) + Send + 'static) {
        let asking = self.clone();
        std::thread::spawn(move || {
            let env = Env::real();
            let left = asking.left(&env);
            let options = Options {
                timeout: left,
                io_timeout: left.max(Duration::from_millis(1)),
                ..asking.options.clone()
            };
            run(&env, options);
        });
    }

    /// The bootstrap addresses, each once.
    pub(super) fn addresses(&self) -> BTreeSet<String> {
        let all = self.bootstrap.split(',').map(str::trim);
        let all = all.filter(|address| !address.is_empty());
        all.map(str::to_owned).collect()
    }

    /// Asks all bootstrap addresses at once.
    pub(super) fn ask_each<T: Send + 'static>(
        &self,
        question: impl Fn(&Env, &str, Options) -> Result<T, Error> + Clone + Send + 'static,
    ) -> Answers<T> {
        let (sender, answers) = channel();
        for address in self.addresses() {
            let (sender, question) = (sender.clone(), question.clone());
            self.spawn(move |env, options| {
                let answer = question(env, &address, options);
                // Nobody waits for it any more.
                let _ = sender.send((address, answer));
            });
        }
        Answers {
            answers,
            asking: self.clone(),
        }
    }

    fn late(&self, what: &str) -> Error {
        Error::TimedOut {
            what: what.to_owned(),
            after: self.timeout,
            last: None,
        }
    }

    /// Asks without a client that knows the cluster.
    pub(super) fn ask_alone<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Env, Options) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        let (sender, answer) = channel();
        self.spawn(move |env, options| {
            // Nobody waits for it any more.
            let _ = sender.send(what(env, options));
        });
        Pending {
            answer,
            asking: self.clone(),
        }
    }

    pub(super) fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Client) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        let bootstrap = self.bootstrap.clone();
        self.ask_alone(move |env, options| {
            let mut client = Client::connect(env, &bootstrap, options)?;
            what(&mut client)
        })
    }
}

/// Answers of several addresses, on their way.
pub(super) struct Answers<T> {
    answers: Receiver<(String, Result<T, Error>)>,
    asking: Asking,
}

impl<T> Answers<T> {
    /// The next answer with its address. `None` if all are here, or the time is over.
    pub(super) fn next_until(&self, until: Instant) -> Option<(String, Result<T, Error>)> {
        let left = until.since(Env::real().clock.now());
        self.answers.recv_timeout(left).ok()
    }

    /// The first answer with its address, so that a broker that is silent delays nothing.
    ///
    /// # Errors
    /// No address answered: the error of one that took the connection and ended it, else of any; or an address is none.
    pub(super) fn first(&self, what: &str) -> Result<(String, T), Error> {
        // The error of a socket says more than that the time is over, and comes a moment later.
        let until = self.asking.until.plus(SOCKET_SLACK);
        let mut last = None;
        while let Some((address, answer)) = self.next_until(until) {
            match answer {
                Ok(answer) => return Ok((address, answer)),
                Err(error @ (Error::Address { .. } | Error::Protocol { .. })) => return Err(error),
                Err(_) if matches!(last, Some(Error::Lost { .. } | Error::Login { .. })) => {}
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| self.asking.late(what)))
    }
}

pub(super) struct Pending<T> {
    answer: Receiver<Result<T, Error>>,
    asking: Asking,
}

impl<T> Pending<T> {
    /// The time that the answer may take.
    pub(super) fn time(&self) -> Duration {
        self.asking.timeout
    }

    pub(super) fn get(self, what: &str) -> Result<T, Error> {
        // The error of a socket says more than that the time is over, and comes a moment later.
        let left = self.asking.left(&Env::real()) + SOCKET_SLACK;
        let answer = self.answer.recv_timeout(left);
        answer.unwrap_or_else(|_| Err(self.asking.late(what)))
    }
}
