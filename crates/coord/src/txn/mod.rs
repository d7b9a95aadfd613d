//! Transactions of one partition of `__transaction_state`: who may write, what is open, how it ends.
