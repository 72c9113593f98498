/** A small Kafka Streams application, a word count, that the Go package compat/streams starts, stops and kills. */
package io.felixlog.compat.streams;
