// Verifies a Bursar log and its receipts with other people's code: tessera's fsck for all tiles and
// entries, golang.org/x/mod/sumdb for notes, tiles and proofs, and transparency-dev/merkle for
// proofs once more. Nothing here knows how Bursar is made, but for the leaf of a record, which is
// Bursar's.
//
//	interop log DIR|URL KEYS [OLD-CHECKPOINT]    a folder with the log's files, or its address
//	interop receipt FILE KEYS
//	interop receipts FOLDER KEYS    all files of a folder, in the order of their names
//
// KEYS is a file with a verifier key a line, any of which may have signed. Prints one line of JSON,
// of a folder one for each file, and exits with 0 only if all is well.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Longer than any log takes that the tests make; tessera's workers wait for each other for ever
// when all of them have failed.
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
	if flag.Arg(0) == "receipts" {
		judgeFolder(flag.Arg(1), flag.Arg(2))
	}
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

func judgeFolder(folder, keys string) {
	files, err := os.ReadDir(folder)
	status := 0
	for _, file := range files {
		result := run([]string{"receipt", filepath.Join(folder, file.Name()), keys})
		if err = json.NewEncoder(os.Stdout).Encode(result); err != nil || !result.OK {
			status = 1
		}
	}
	if err != nil {
		status = 1
	}
	os.Exit(status)
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

const noteBytesMax = 1_000_000

// A checkpoint that one of the keys has signed whose name is its origin. Base64 that is not the one
// text of its bytes is refused, which neither of the libraries does.
func openCheckpoint(text []byte, verifiers []note.Verifier) (*head, error) {
	if len(text) > noteBytesMax {
		return nil, errors.New("the note is too long")
	}
	signed, err := note.Open(text, note.VerifierList(verifiers...))
	if err != nil {
		return nil, err
	}
	for _, one := range append(signed.Sigs, signed.UnverifiedSigs...) {
		if _, err := decodeBase64(one.Base64); err != nil {
			return nil, err
		}
	}
	lines := strings.Split(strings.TrimSuffix(signed.Text, "\n"), "\n")
	if len(lines) < 3 || slices.Contains(lines, "") {
		return nil, errors.New("the note is no checkpoint")
	}
	isOfOrigin := func(one note.Signature) bool { return one.Name == lines[0] }
	if !slices.ContainsFunc(signed.Sigs, isOfOrigin) {
		return nil, fmt.Errorf("a checkpoint of %q signed by %q", lines[0], signed.Sigs[0].Name)
	}
	if _, err := decodeBase64(lines[2]); err != nil {
		return nil, err
	}
	// The Go checksum database writes its own name where others have their origin.
	tree, err := tlog.ParseTree(fmt.Appendf(nil, "go.sum database tree\n%s\n%s\n", lines[1], lines[2]))
	if err != nil {
		return nil, err
	}
	if tree.N > safeIntegerMax {
		return nil, errors.New("the tree is too large")
	}
	return &head{origin: lines[0], tree: tree}, nil
}

func decodeBase64(text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err == nil && base64.StdEncoding.EncodeToString(data) != text {
		err = fmt.Errorf("%q is not the base64 of anything", text)
	}
	return data, err
}
