package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// Run reads a Spec from in, runs it, and writes the lines that the package comment describes to out.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	var spec Spec
	if err := json.NewDecoder(in).Decode(&spec); err != nil {
		return fmt.Errorf("read the load: %w", err)
	}
	run := map[string]func(context.Context, *Spec, io.Writer) (*Result, error){
		Produce + "/franz": runProduce, Produce + "/confluent": runProduceConfluent,
		Consume + "/franz": runConsume, Consume + "/confluent": runConsumeConfluent,
		Sync + "/franz": runSync, Latency + "/franz": runFlow, Sustain + "/franz": runFlow, Cold + "/franz": runCold,
		Stable + "/franz": runStable, Commit + "/raw": runCommit,
		Deliver + "/bus": runDeliver, Fanout + "/bus": runFanout, Ingest + "/bus": runIngest, Singles + "/bus": runIngest, Hold + "/bus": runHold,
	}[spec.Kind+"/"+spec.Client]
	if run == nil {
		return fmt.Errorf("no load %q with client %q", spec.Kind, spec.Client)
	}
	res, err := run(ctx, &spec, out)
	if err != nil {
		return fmt.Errorf("%s: %w", spec.Kind, err)
	}
	return json.NewEncoder(out).Encode(res)
}
