// Verifies a Bursar log and its receipts with other people's code: tessera's fsck for all tiles and
// entries, golang.org/x/mod/sumdb for notes, tiles and proofs, and transparency-dev/merkle for proofs
// once more. Nothing here knows how Bursar is made, but for the leaf of a record, which is Bursar's.
//
//	interop log DIR|URL KEYS [OLD-CHECKPOINT]    a folder with the log's files, or its address
//	interop receipt FILE KEYS
//
// KEYS is a file with a verifier key a line, any of which may have signed. Prints one line of JSON and
// exits with 0 only if all is well.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Longer than any log takes that the tests make; tessera's workers wait for each other for ever when
// all of them have failed.
const timeout = 60 * time.Second

type outcome struct {
	OK     bool   `json:"ok"`
	Error  string `json:"error,omitempty"`
	Origin string `json:"origin,omitempty"`
	Size   int64  `json:"size,omitempty"`
	Index  int64  `json:"index,omitempty"`
}

// The first part of a checkpoint, verified.
type head struct {
	origin string
	tree   tlog.Tree
}

func main() {
	flag.Parse()
	finish := make(chan outcome, 1)
	go func() { finish <- run(flag.Args()) }()
	result := outcome{Error: "no outcome in time"}
	select {
	case result = <-finish:
	case <-time.After(timeout):
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil || !result.OK {
		os.Exit(1)
	}
}

func run(args []string) (result outcome) {
	// Tessera indexes past the end of a bundle with too few entries.
	defer func() {
		if problem := recover(); problem != nil {
			result = outcome{Error: fmt.Sprintf("panic: %v", problem)}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	result, err := dispatch(ctx, args)
	if err != nil {
		return outcome{Error: err.Error()}
	}
	result.OK = true
	return result
}

func dispatch(ctx context.Context, args []string) (outcome, error) {
	if len(args) < 3 {
		return outcome{}, errors.New("usage: interop log|receipt PLACE KEYS [OLD-CHECKPOINT]")
	}
	verifiers, err := readKeys(args[2])
	if err != nil {
		return outcome{}, err
	}
	switch args[0] {
	case "log":
		var old *head
		if len(args) > 3 {
			text, err := os.ReadFile(args[3])
			if err != nil {
				return outcome{}, err
			}
			if old, err = openCheckpoint(text, verifiers); err != nil {
				return outcome{}, fmt.Errorf("old checkpoint: %w", err)
			}
		}
		return checkLog(ctx, args[1], log{verifiers: verifiers, old: old})
	case "receipt":
		text, err := os.ReadFile(args[1])
		if err != nil {
			return outcome{}, err
		}
		return checkReceipt(string(text), verifiers)
	}
	return outcome{}, fmt.Errorf("what is %q?", args[0])
}

func readKeys(file string) ([]note.Verifier, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var verifiers []note.Verifier
	for _, line := range strings.Fields(string(text)) {
		verifier, err := note.NewVerifier(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		verifiers = append(verifiers, verifier)
	}
	return verifiers, nil
}

// A checkpoint that one of the keys has signed whose name is its origin.
func openCheckpoint(text []byte, verifiers []note.Verifier) (*head, error) {
	signed, err := note.Open(text, note.VerifierList(verifiers...))
	if err != nil {
		return nil, err
	}
	lines := strings.SplitN(signed.Text, "\n", 2)
	if signed.Sigs[0].Name != lines[0] {
		return nil, fmt.Errorf("a checkpoint of %q signed by %q", lines[0], signed.Sigs[0].Name)
	}
	// The Go checksum database writes its own name where others have their origin.
	tree, err := tlog.ParseTree([]byte("go.sum database tree\n" + lines[1]))
	if err != nil {
		return nil, err
	}
	return &head{origin: lines[0], tree: tree}, nil
}
