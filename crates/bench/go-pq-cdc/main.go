// A peer of the bench: go-pq-cdc-kafka, which is a library, in the smallest program that does the
// router's work: the slot and the publication that it is given, key and payload as they are, the
// event's type and id as headers, acks=all.
//
// scripts/go-pq-cdc.sh builds it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"time"

	cdc "github.com/Trendyol/go-pq-cdc-kafka"
	"github.com/Trendyol/go-pq-cdc-kafka/config"
	source "github.com/Trendyol/go-pq-cdc/config"
	"github.com/Trendyol/go-pq-cdc/pq/publication"
	"github.com/Trendyol/go-pq-cdc/pq/slot"
	"github.com/segmentio/kafka-go"
)

func main() {
	port := flag.Int("port", 5432, "of PostgreSQL on this machine")
	user := flag.String("user", "postgres", "")
	database := flag.String("database", "postgres", "")
	slotName := flag.String("slot", "", "")
	publicationName := flag.String("publication", "", "")
	bootstrap := flag.String("bootstrap", "", "a broker")
	topic := flag.String("topic", "", "for every event")
	metrics := flag.Int("metrics", 8080, "port of its HTTP server")
	tick := flag.Duration("tick", 100*time.Millisecond, "after which a batch is sent")
	version := flag.Bool("version", false, "print the versions, and do nothing")
	flag.Parse()
	if *version {
		fmt.Println(versions())
		return
	}

	settings := config.Connector{
		CDC: source.Config{
			Host: "127.0.0.1", Port: *port, Username: *user, Password: "unused",
			Database:    *database,
			Publication: publication.Config{Name: *publicationName},
			Slot:        slot.Config{Name: *slotName, SlotActivityCheckerInterval: 3000},
			Metric:      source.MetricConfig{Port: *metrics},
			Logger:      source.LoggerConfig{LogLevel: slog.LevelWarn},
		},
		Kafka: config.Kafka{
			Brokers:                     []string{*bootstrap},
			Balancer:                    "Murmur2Balancer",
			RequiredAcks:                int(kafka.RequireAll),
			ProducerBatchSize:           10_000,
			ProducerBatchTickerDuration: *tick,
			ProducerMaxAttempts:         math.MaxInt,
		},
	}
	connector, err := cdc.NewConnector(context.Background(), settings, events(*topic))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer connector.Close()
	connector.Start(context.Background())
}

// The record of a row: the library hands its columns over decoded.
func events(topic string) cdc.Handler {
	return func(change *cdc.Message) []kafka.Message {
		row := change.NewData
		payload, err := json.Marshal(row["payload"])
		if err != nil {
			panic(err)
		}
		return []kafka.Message{{
			Topic: topic,
			Key:   []byte(text(row["aggregateid"])),
			Value: payload,
			Headers: []kafka.Header{
				{Key: "id", Value: []byte(text(row["id"]))},
				{Key: "type", Value: []byte(text(row["type"]))},
			},
		}}
	}
}

func versions() string {
	build, _ := debug.ReadBuildInfo()
	names := []string{}
	for _, module := range build.Deps {
		if name, found := strings.CutPrefix(module.Path, "github.com/Trendyol/"); found {
			names = append(names, name+" "+module.Version)
		}
	}
	return strings.Join(append(names, build.GoVersion), ", ")
}

func text(column any) string {
	if id, ok := column.([16]byte); ok {
		return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	}
	return fmt.Sprint(column)
}
