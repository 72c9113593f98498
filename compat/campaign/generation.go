package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// generationDigits is how much of the hash the ledger shows.
const generationDigits = 8

// goPackage is what `go list` says of one.
type goPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Module     *struct {
		Path, Version string
		Main          bool
	}
}

// generation names the code that a target runs: the sources of its package and of all of ours that it imports, the versions of other
// modules, the Go release, and the file that holds the target. Minutes of one generation add up; a commit that touches none of these,
// the ledger's own for one, starts no new one.
func (f *fuzzCampaign) generation(ctx context.Context, t fuzzTarget) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-tags", "invariants", "-json=ImportPath,Dir,GoFiles,Module", t.dir)
	cmd.Dir = f.root
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	packages, err := readPackages(out)
	if err = errors.Join(err, cmd.Wait()); err != nil {
		return "", fmt.Errorf("go list -deps %s: %w", t.dir, err)
	}
	return hashSources(packages, filepath.Join(f.root, t.file), runtime.Version())
}

func readPackages(r io.Reader) ([]goPackage, error) {
	var out []goPackage
	dec := json.NewDecoder(r)
	for {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			_, _ = io.Copy(io.Discard, r) // the command must not block on its output
			return nil, err
		}
		out = append(out, p)
	}
}

// hashSources hashes the packages in the order of their import paths.
func hashSources(packages []goPackage, targetFile, release string) (string, error) {
	packages = slices.Clone(packages)
	slices.SortFunc(packages, func(a, b goPackage) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	sum := sha256.New()
	sum.Write(fmt.Appendln(nil, release))
	files := []string{targetFile}
	for _, p := range packages {
		switch {
		case p.Module == nil: // the standard library: the release stands for it
		case !p.Module.Main:
			sum.Write(fmt.Appendln(nil, p.ImportPath, p.Module.Path, p.Module.Version))
		default:
			sum.Write(fmt.Appendln(nil, p.ImportPath, p.GoFiles))
			for _, name := range p.GoFiles {
				files = append(files, filepath.Join(p.Dir, name))
			}
		}
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		sum.Write(fmt.Appendln(nil, filepath.Base(name), len(b)))
		sum.Write(b)
	}
	return hex.EncodeToString(sum.Sum(nil))[:generationDigits], nil
}
