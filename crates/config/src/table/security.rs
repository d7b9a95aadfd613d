//! Settings of TLS, SASL and delegation tokens.

use super::Setting;

pub(super) const SETTINGS: &[Setting] = settings! {
    "allow.everyone.if.no.acl.found" Boolean "false" Any ReadOnly Works "everybody may use what no rule names, where there is an authorizer";
    "authorizer.class.name" String "" Any ReadOnly Works
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer, whose rules are built in: who may do what is asked by rules. Empty: everybody may do everything";
    "delegation.token.expiry.check.interval.ms" Long "3600000" AtLeast(1) ReadOnly Accepted
        "time between looks for expired delegation tokens";
    "delegation.token.expiry.time.ms" Long "86400000" AtLeast(1) ReadOnly Accepted
        "life of a delegation token unless renewed";
    "delegation.token.max.lifetime.ms" Long "604800000" AtLeast(1) ReadOnly Accepted
        "life of a delegation token even if renewed";
    "delegation.token.secret.key" Password - Any ReadOnly Accepted "key that signs delegation tokens";
    "principal.builder.class" Class "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder" Any PerBroker Meaningless
        "Plug-in classes of the JVM cannot be loaded";
    "sasl.client.callback.handler.class" Class - Any ReadOnly Meaningless "Plug-in classes of the JVM cannot be loaded";
    "sasl.enabled.mechanisms" List "GSSAPI" Items PerBroker Works
        "SASL mechanisms on offer: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN; to be set where a listener speaks SASL_PLAINTEXT, also as listener.name.NAME.sasl.enabled.mechanisms";
    "sasl.jaas.config" Password - Any PerBroker Works
        "login settings of SASL, in JAAS form; read as listener.name.NAME.MECHANISM.sasl.jaas.config alone: user_NAME=\"PASSWORD\" lets users in by PLAIN, beside those of the cluster";
    "sasl.kerberos.kinit.cmd" String "/usr/bin/kinit" Any PerBroker Meaningless
        "Tickets are not renewed by running a command";
    "sasl.kerberos.min.time.before.relogin" Long "60000" Any PerBroker Accepted "pause between two Kerberos logins";
    "sasl.kerberos.principal.to.local.rules" List "DEFAULT" Items PerBroker Accepted
        "rules from Kerberos principal to user name";
    "sasl.kerberos.service.name" String - Any PerBroker Accepted "Kerberos service name of the broker";
    "sasl.kerberos.ticket.renew.jitter" Double "0.05" Any PerBroker Accepted
        "random part of the time a ticket is renewed at";
    "sasl.kerberos.ticket.renew.window.factor" Double "0.8" Any PerBroker Accepted
        "share of a ticket's life after which it is renewed";
    "sasl.login.callback.handler.class" Class - Any ReadOnly Meaningless "Plug-in classes of the JVM cannot be loaded";
    "sasl.login.class" Class - Any ReadOnly Meaningless "Plug-in classes of the JVM cannot be loaded";
    "sasl.login.connect.timeout.ms" Int - Any ReadOnly Accepted "connection timeout of the identity provider";
    "sasl.login.read.timeout.ms" Int - Any ReadOnly Accepted "read timeout of the identity provider";
    "sasl.login.refresh.buffer.seconds" Short "300" Any PerBroker Accepted
        "seconds before its end at which a token is renewed";
    "sasl.login.refresh.min.period.seconds" Short "60" Any PerBroker Accepted
        "least seconds between two renewals of a token";
    "sasl.login.refresh.window.factor" Double "0.8" Any PerBroker Accepted
        "share of a token's life after which it is renewed";
    "sasl.login.refresh.window.jitter" Double "0.05" Any PerBroker Accepted "random part of the time a token is renewed at";
    "sasl.login.retry.backoff.max.ms" Long "10000" Any ReadOnly Accepted "longest pause between two login tries";
    "sasl.login.retry.backoff.ms" Long "100" Any ReadOnly Accepted "first pause between two login tries";
    "sasl.mechanism.controller.protocol" String "GSSAPI" Any ReadOnly Accepted "SASL mechanism towards controllers";
    "sasl.mechanism.inter.broker.protocol" String "GSSAPI" Any PerBroker Accepted "SASL mechanism among brokers";
    "sasl.oauthbearer.assertion.algorithm" String "RS256" OneOfAnyCase(&["ES256", "RS256"]) ReadOnly Accepted
        "signature algorithm of the client assertion";
    "sasl.oauthbearer.assertion.claim.aud" String - Any ReadOnly Accepted "audience claim of the client assertion";
    "sasl.oauthbearer.assertion.claim.exp.seconds" Int "300" Between(0, 86400) ReadOnly Accepted
        "seconds a client assertion is valid";
    "sasl.oauthbearer.assertion.claim.iss" String - Any ReadOnly Accepted "issuer claim of the client assertion";
    "sasl.oauthbearer.assertion.claim.jti.include" Boolean "false" Any ReadOnly Accepted
        "a client assertion carries an id of its own";
    "sasl.oauthbearer.assertion.claim.nbf.seconds" Int "60" Between(0, 3600) ReadOnly Accepted
        "seconds in the past from which a client assertion is valid";
    "sasl.oauthbearer.assertion.claim.sub" String - Any ReadOnly Accepted "subject claim of the client assertion";
    "sasl.oauthbearer.assertion.file" String - Any ReadOnly Accepted "file with a ready client assertion";
    "sasl.oauthbearer.assertion.private.key.file" String - Any ReadOnly Accepted
        "file with the key that signs client assertions";
    "sasl.oauthbearer.assertion.private.key.passphrase" Password - Any ReadOnly Accepted "passphrase of that key";
    "sasl.oauthbearer.assertion.template.file" String - Any ReadOnly Accepted
        "file with headers and claims of client assertions";
    "sasl.oauthbearer.client.credentials.client.id" String - Any ReadOnly Accepted "client id at the identity provider";
    "sasl.oauthbearer.client.credentials.client.secret" Password - Any ReadOnly Accepted
        "client secret at the identity provider";
    "sasl.oauthbearer.clock.skew.seconds" Int "30" Any ReadOnly Accepted
        "clock difference to the identity provider that is tolerated";
    "sasl.oauthbearer.expected.audience" List "" Items ReadOnly Accepted "audience a token must name";
    "sasl.oauthbearer.expected.issuer" String - Any ReadOnly Accepted "issuer a token must name";
    "sasl.oauthbearer.jwks.endpoint.refresh.ms" Long "3600000" Any ReadOnly Accepted
        "time between two reads of the key set";
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms" Long "10000" Any ReadOnly Accepted
        "longest pause between two tries to read the key set";
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms" Long "100" Any ReadOnly Accepted
        "first pause between two tries to read the key set";
    "sasl.oauthbearer.jwks.endpoint.url" String - Any ReadOnly Accepted "where the key set is";
    "sasl.oauthbearer.jwt.retriever.class" Class "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever" Any ReadOnly Meaningless
        "Plug-in classes of the JVM cannot be loaded";
    "sasl.oauthbearer.jwt.validator.class" Class "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator" Any ReadOnly Meaningless
        "Plug-in classes of the JVM cannot be loaded";
    "sasl.oauthbearer.scope" String - Any ReadOnly Accepted "scope to ask for with a token";
    "sasl.oauthbearer.scope.claim.name" String "scope" Any ReadOnly Accepted "claim that holds the scope";
    "sasl.oauthbearer.sub.claim.name" String "sub" Any ReadOnly Accepted "claim that holds the subject";
    "sasl.oauthbearer.token.endpoint.url" String - Any ReadOnly Accepted "where tokens come from";
    "sasl.server.callback.handler.class" Class - Any ReadOnly Meaningless "Plug-in classes of the JVM cannot be loaded";
    "sasl.server.max.receive.size" Int "65536" AtLeast(1024) ReadOnly Works
        "largest request before authentication has ended; 524288 in Kafka; also with the prefix listener.name.NAME.";
    "security.providers" String - Any ReadOnly Meaningless "Plug-in classes of the JVM cannot be loaded";
    "ssl.allow.dn.changes" Boolean "false" Any ReadOnly Accepted "a reloaded certificate may have another subject";
    "ssl.allow.san.changes" Boolean "false" Any ReadOnly Accepted "a reloaded certificate may have other alternative names";
    "ssl.cipher.suites" List "" Items PerBroker Accepted "cipher suites on offer";
    "ssl.client.auth" String "none" OneOf(&["required", "requested", "none"]) PerBroker Accepted
        "whether clients must, may or need not show a certificate";
    "ssl.enabled.protocols" List "TLSv1.2,TLSv1.3" Items PerBroker Accepted "TLS versions on offer";
    "ssl.endpoint.identification.algorithm" String "https" Any PerBroker Accepted "how a server's name is checked";
    "ssl.engine.factory.class" Class - Any PerBroker Meaningless "Plug-in classes of the JVM cannot be loaded";
    "ssl.key.password" Password - Any PerBroker Accepted "password of the private key";
    "ssl.keymanager.algorithm" String "SunX509" Any PerBroker Meaningless "A detail of the JVM's key stores";
    "ssl.keystore.certificate.chain" Password - Any PerBroker Accepted "certificate chain in PEM";
    "ssl.keystore.key" Password - Any PerBroker Accepted "private key in PEM";
    "ssl.keystore.location" String - Any PerBroker Accepted "file with key and certificate";
    "ssl.keystore.password" Password - Any PerBroker Accepted "password of that file";
    "ssl.keystore.type" String "JKS" Any PerBroker Accepted "format of that file";
    "ssl.principal.mapping.rules" String "DEFAULT" Any ReadOnly Accepted "rules from certificate subject to user name";
    "ssl.protocol" String "TLSv1.3" Any PerBroker Accepted "TLS version preferred";
    "ssl.provider" String - Any PerBroker Meaningless "A detail of the JVM's security providers";
    "ssl.secure.random.implementation" String - Any PerBroker Meaningless "A detail of the JVM's security providers";
    "ssl.trustmanager.algorithm" String "PKIX" Any PerBroker Meaningless "A detail of the JVM's key stores";
    "ssl.truststore.certificates" Password - Any PerBroker Accepted "trusted certificates in PEM";
    "ssl.truststore.location" String - Any PerBroker Accepted "file with trusted certificates";
    "ssl.truststore.password" Password - Any PerBroker Accepted "password of that file";
    "ssl.truststore.type" String "JKS" Any PerBroker Accepted "format of that file";
    "super.users" String "" Any ReadOnly Works "principals who may do everything, Type:name each, separated by semicolons";
};
