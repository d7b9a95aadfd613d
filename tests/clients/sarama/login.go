package main

import (
	"os"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// logIn says who a client is, in a run with logins.
func logIn(c *sarama.Config) {
	mechanism := sarama.SASLMechanism(os.Getenv("ESKER_SASL_MECHANISM"))
	if mechanism == "" {
		return
	}
	c.Net.SASL.Enable, c.Net.SASL.Mechanism = true, mechanism
	c.Net.SASL.User, c.Net.SASL.Password = os.Getenv("ESKER_SASL_USER"), os.Getenv("ESKER_SASL_PASSWORD")
	c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		if mechanism == sarama.SASLTypeSCRAMSHA256 {
			return &conversation{hash: scram.SHA256}
		}
		return &conversation{hash: scram.SHA512}
	}
}

// conversation fits the package of SCRAM that Sarama's own examples use to what Sarama asks for.
type conversation struct {
	*scram.ClientConversation
	hash scram.HashGeneratorFcn
}

func (c *conversation) Begin(user, password, authzID string) error {
	client, err := c.hash.NewClient(user, password, authzID)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}
