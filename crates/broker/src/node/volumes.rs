//! The log directories of one broker, and the bells of the threads that commit to them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use env::{Bell, Clock};
use partition::{Cleaning, LogDir, Residents, Wait};

use super::lifetime::{EndListener, Lifetime};
use crate::mail::Mail;
use crate::settings::Settings;

pub(crate) struct Volumes {
    clock: Arc<dyn Clock>,
    mail: Arc<Mail>,
    lifetime: Arc<Lifetime>,
    dirs: Vec<Arc<LogDir>>,
    /// The partitions in each of them: this keeps them alive.
    residents: Vec<Arc<Residents>>,
    committers: Vec<Arc<dyn Bell>>,
    /// By directory: a commit thread waits for company, and knows until when.
    lingering: Vec<AtomicBool>,
    /// Set once, when the loops start.
    cleaning: OnceLock<Arc<Cleaning>>,
    metadata_dir: Arc<LogDir>,
    /// So many directories had failed at the last look, and the controller of the cluster is to be told of another one.
    failed_dirs: AtomicUsize,
    has_news: AtomicBool,
}

impl Volumes {
    /// `residents` and `committers` are in the order of the directories; `metadata_dir` is one of these.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        (mail, lifetime): (Arc<Mail>, Arc<Lifetime>),
        residents: Vec<Arc<Residents>>,
        committers: Vec<Arc<dyn Bell>>,
        metadata_dir: Arc<LogDir>,
    ) -> Volumes {
        let dirs: Vec<_> = residents.iter().map(|of| Arc::clone(&of.dir)).collect();
        Volumes {
            clock,
            mail,
            lifetime,
            lingering: dirs.iter().map(|_| AtomicBool::new(false)).collect(),
            dirs,
            residents,
            committers,
            cleaning: OnceLock::new(),
            metadata_dir,
            failed_dirs: AtomicUsize::new(0),
            has_news: AtomicBool::new(false),
        }
    }

    pub(crate) fn set_cleaning(&self, cleaning: Arc<Cleaning>) {
        let is_first = self.cleaning.set(cleaning).is_ok();
        assert!(is_first, "cleaners are made once");
    }

    pub(crate) fn set_settings(&self, settings: &Settings) {
        if let Some(cleaning) = self.cleaning.get() {
            cleaning.set_settings(settings.cleaner());
        }
        let expiration_ms = settings.dir().producer_expiration_ms;
        (self.residents.iter()).for_each(|of| of.set_producer_expiration(expiration_ms));
    }

    pub(crate) fn dirs(&self) -> &[Arc<LogDir>] {
        &self.dirs
    }

    /// A volume takes names that differ in case alone for one.
    pub(crate) fn folds_names(&self) -> bool {
        self.dirs.iter().any(|dir| dir.folds_names)
    }

    /// In the order of the directories.
    pub(crate) fn residents(&self) -> &[Arc<Residents>] {
        &self.residents
    }

    /// Notifies the commit threads that something is queued; not while one waits for more of that, or all are at work.
    pub(crate) fn ring_committer(&self, dir: usize) {
        let waits = match self.dirs[dir].commit_wait(self.clock.now()) {
            // It sets the mark (1) before it sleeps and takes it away (2) before it looks at the queue: when we see the mark,
            // what we queued comes before that look.
            Wait::Until(_) => self.lingering[dir].load(Ordering::SeqCst),
            Wait::Busy => true,
            Wait::No => false,
        };
        if !waits {
            self.committers[dir].ring();
        }
    }

    /// Has a commit thread take what the quorum appended; shards see to their own appends.
    pub(crate) fn commit_metadata(&self) {
        let dir = &self.metadata_dir;
        if dir.has_queued()
            && let Some(at) = self.dirs.iter().position(|known| Arc::ptr_eq(known, dir))
        {
            self.ring_committer(at);
        }
    }

    /// A commit thread waits for company, unless another one does already.
    pub(crate) fn linger(&self, dir: usize) -> bool {
        !self.lingering[dir].swap(true, Ordering::SeqCst)
    }

    pub(crate) fn end_linger(&self, dir: usize) {
        self.lingering[dir].store(false, Ordering::SeqCst);
    }

    /// True if a directory has failed since the last call.
    pub(crate) fn take_news(&self) -> bool {
        self.has_news.swap(false, Ordering::Relaxed)
    }

    /// Stops the broker when it has lost what it cannot work without, and has the controller of the cluster told of a directory that failed.
    pub(crate) fn check_health(&self) {
        let failed = self.dirs.iter().filter(|dir| dir.is_failed()).count();
        if self.failed_dirs.swap(failed, Ordering::Relaxed) != failed {
            self.has_news.store(true, Ordering::Relaxed);
            self.mail.quorum.wake();
        }
        if self.metadata_dir.is_failed() {
            self.lifetime.fail(format!(
                "log dir {} with the metadata log is offline",
                self.metadata_dir.path.display()
            ));
        } else if self.dirs.iter().all(|dir| dir.is_failed()) {
            self.lifetime.fail("every log dir is offline".to_owned());
        }
    }
}

impl EndListener for Volumes {
    fn on_stopping(&self) {
        self.committers.iter().for_each(|bell| bell.ring());
        if let Some(cleaning) = self.cleaning.get() {
            cleaning.stop();
        }
    }

    fn on_loop_ended(&self) {
        self.committers.iter().for_each(|bell| bell.ring());
    }

    fn on_all_ended(&self) {
        self.dirs.iter().for_each(|dir| dir.stop());
    }
}
