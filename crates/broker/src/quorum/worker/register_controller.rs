//! The registration of this controller with the active one, as [`ControllerRegistration`](crate::quorum::ControllerRegistration) wants it.

use model::Instant;
use wire::messages::ControllerRegistrationResponse;

use super::{Author, LIFECYCLE_WAIT_MAX, QuorumWorker};
use crate::peers::{Answer, Lane, Outbound};

impl QuorumWorker {
    /// When the registration is to be looked at. Alone there is nobody who has to know.
    pub(super) fn registers_controller_at(&self) -> Option<Instant> {
        let registration = self.registration.as_ref()?;
        let is_wanted =
            !self.shared.state.is_alone() && registration.is_wanted(&self.shared.catalog.image());
        registration.deadline().filter(|_| is_wanted)
    }

    /// Sends the registration if it is due.
    pub(super) fn register_controller(&mut self, now: Instant) {
        if self.registers_controller_at().is_none_or(|at| now < at) {
            return;
        }
        let Some(registration) = &mut self.registration else {
            return;
        };
        let request = registration.take(now).cloned();
        let (Some(endpoint), Some(request)) = (self.controller.clone(), request) else {
            return registration.on_nobody(now);
        };
        self.send_out(Outbound {
            target: (endpoint, Lane::Controller),
            request,
            until: Some(now.plus(LIFECYCLE_WAIT_MAX)),
            of: Author::ControllerRegistration,
        });
    }

    /// The active controller has answered; `None`: it cannot be reached.
    pub(super) fn on_controller_registered(&mut self, answer: Option<Answer>) {
        let now = self.shared.env.clock.now();
        let Some(registration) = &mut self.registration else {
            return;
        };
        let Some(answer) = answer else {
            return registration.on_nobody(now);
        };
        let read: Option<ControllerRegistrationResponse> = answer.read();
        let code = read.map_or(-1, |response| response.error_code);
        if code != 0 {
            tracing::debug!(target: env::logs::METADATA, code, "the active controller does not register this one");
        }
        registration.on_answer(code == 0, now);
    }
}
