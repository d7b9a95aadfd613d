//! The settings of transaction coordinators.

use std::time::Duration;

use coord::txn;

pub(crate) fn txn_settings(broker: &config::Broker) -> txn::Settings {
    let defaults = txn::Settings::default();
    let timeout_ms_max = broker.number("transaction.max.timeout.ms");
    let milliseconds = |name: &str| {
        let ms = broker.number(name).and_then(|ms| u64::try_from(ms).ok());
        ms.map(Duration::from_millis)
    };
    let add_wait_max =
        milliseconds("add.partitions.to.txn.retry.backoff.max.ms").unwrap_or(defaults.add_wait_max);
    txn::Settings {
        timeout_ms_max: timeout_ms_max
            .and_then(|ms| i32::try_from(ms).ok())
            .unwrap_or(defaults.timeout_ms_max),
        expiration_ms: broker
            .number("transactional.id.expiration.ms")
            .unwrap_or(defaults.expiration_ms),
        expiration_check: milliseconds(
            "transaction.remove.expired.transaction.cleanup.interval.ms",
        )
        .unwrap_or(defaults.expiration_check),
        abort_check: milliseconds("transaction.abort.timed.out.transaction.cleanup.interval.ms")
            .unwrap_or(defaults.abort_check),
        // The client has given up by then.
        add_wait_max: milliseconds("request.timeout.ms")
            .map_or(add_wait_max, |most| add_wait_max.min(most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    #[test]
    fn settings_of_transactions_arrive_under_their_names_and_in_their_units() {
        let set = settings(&[
            ("transaction.max.timeout.ms", "31"),
            ("transactional.id.expiration.ms", "32"),
            (
                "transaction.remove.expired.transaction.cleanup.interval.ms",
                "33",
            ),
            (
                "transaction.abort.timed.out.transaction.cleanup.interval.ms",
                "34",
            ),
            ("add.partitions.to.txn.retry.backoff.max.ms", "35"),
        ]);
        let want = txn::Settings {
            timeout_ms_max: 31,
            expiration_ms: 32,
            expiration_check: Duration::from_millis(33),
            abort_check: Duration::from_millis(34),
            add_wait_max: Duration::from_millis(35),
        };
        assert_eq!(txn_settings(&set.broker), want);
        assert_eq!(
            txn_settings(&settings(&[]).broker),
            txn::Settings::default()
        );
        let hurried = settings(&[("request.timeout.ms", "7")]);
        let wait = txn_settings(&hurried.broker).add_wait_max;
        assert_eq!(wait, Duration::from_millis(7));
    }
}
