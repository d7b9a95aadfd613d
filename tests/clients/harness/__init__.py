"""What the clients' tests share: brokers, installs, results, and a small codec of our own for raw requests."""
