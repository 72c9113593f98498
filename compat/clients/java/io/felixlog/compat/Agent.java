package io.felixlog.compat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.AppInfoParser;

/** Reads one JSON request a line on standard input and answers each with one JSON line on standard output. */
public final class Agent {
    static final ObjectMapper JSON = new ObjectMapper();

    private final PrintStream out;
    private Thread running;
    private AtomicBoolean stopping;

    private Agent(PrintStream out) {
        this.out = out;
    }

    /** Runs until standard input ends. */
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        // Whatever a library prints must not get between the answers.
        System.setOut(System.err);
        new Agent(out).serve(new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)));
    }

    private void serve(BufferedReader in) throws Exception {
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode request = JSON.readTree(line);
            String op = request.path("op").asText();
            if (op.equals("tail") || op.equals("load") || op.equals("member")) {
                AtomicBoolean stop = new AtomicBoolean();
                stopping = stop;
                running = new Thread(() -> write(respond(request, op, stop)), op);
                running.start();
            } else if (op.equals("stop")) {
                stop();
            } else {
                write(respond(request, op, null));
            }
        }
        stop();
    }

    private void stop() throws InterruptedException {
        if (running != null) {
            stopping.set(true);
            running.join();
            running = null;
        }
    }

    private ObjectNode respond(JsonNode request, String op, AtomicBoolean stop) {
        ObjectNode response = JSON.createObjectNode();
        try {
            run(request, op, stop, response);
        } catch (Exception e) {
            Throwable cause = e instanceof ExecutionException && e.getCause() != null ? e.getCause() : e;
            response.put("error", cause.toString());
            response.put("code", Errors.forException(cause).code());
        }
        response.put("done", true);
        return response;
    }

    private void run(JsonNode request, String op, AtomicBoolean stop, ObjectNode response) throws Exception {
        switch (op) {
            case "version" -> response.put("version", "kafka-clients " + AppInfoParser.getVersion());
            case "metadata" -> Admin.metadata(request, response);
            case "create" -> Admin.create(request);
            case "produce" -> Records.produce(request, response);
            case "consume" -> Records.consume(request, response);
            case "offsets" -> Records.offsets(request, response);
            case "watermarks" -> Records.watermarks(request, response);
            case "tail" -> Records.tail(request, stop, this::write);
            case "load" -> Load.run(request, stop, response, this::write);
            case "member" -> Members.run(request, stop, this::write);
            case "delete", "alter", "configs", "groups", "describe", "delete-group", "reset", "committed" -> Members.admin(op, request, response);
            case "java.admin" -> Admin.round(request, response);
            case "java.bulk" -> Cases.bulk(request, response);
            case "java.split" -> Cases.split(request, response);
            default -> throw new IllegalArgumentException("unknown operation " + op);
        }
    }

    /** Writes one line; events and responses come from different threads. */
    private synchronized void write(ObjectNode node) {
        out.println(node);
        out.flush();
    }

    /** The client configuration of a request, over the defaults given as name, value, name, value. */
    static Properties config(JsonNode request, String... defaults) {
        Properties p = new Properties();
        p.put("bootstrap.servers", request.path("bootstrap").asText());
        for (int i = 0; i < defaults.length; i += 2) {
            p.put(defaults[i], defaults[i + 1]);
        }
        request.path("config").properties().forEach(f -> p.put(f.getKey(), f.getValue().asText()));
        return p;
    }

    /** How long one operation may wait in all, in milliseconds. */
    static long timeoutMs(JsonNode request) {
        long ms = request.path("timeout_ms").asLong();
        return ms > 0 ? ms : 60_000;
    }
}
