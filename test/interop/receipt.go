package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const receiptBytesMax = 4 << 20

// C2SP tlog-proof@v1.
type receipt struct {
	opening    *opening
	index      int64
	hashes     [][]byte
	checkpoint string
}

func checkReceipt(text string, verifiers []note.Verifier) (outcome, error) {
	parsed, err := parseReceipt(text)
	if err != nil {
		return outcome{}, err
	}
	signed, err := openCheckpoint([]byte(parsed.checkpoint), verifiers)
	if err != nil {
		return outcome{}, err
	}
	leaf, err := parsed.opening.leaf()
	if err != nil {
		return outcome{}, err
	}
	tree := signed.tree
	if parsed.index >= tree.N {
		return outcome{}, fmt.Errorf("index %d of a tree of %d", parsed.index, tree.N)
	}
	leafHash := rfc6962.DefaultHasher.HashLeaf(leaf)
	index, size := uint64(parsed.index), uint64(tree.N)
	root := tree.Hash[:]
	err = proof.VerifyInclusion(rfc6962.DefaultHasher, index, size, leafHash, parsed.hashes, root)
	if err != nil {
		return outcome{}, fmt.Errorf("merkle: %w", err)
	}
	var path tlog.RecordProof
	for _, hash := range parsed.hashes {
		path = append(path, tlog.Hash(hash))
	}
	err = tlog.CheckRecord(path, tree.N, tree.Hash, parsed.index, tlog.RecordHash(leaf))
	if err != nil {
		return outcome{}, fmt.Errorf("sumdb: %w", err)
	}
	if index, err := parsed.opening.index(); err != nil || index != parsed.index {
		return outcome{}, errors.New("the record has another index than its receipt")
	}
	return outcome{Origin: signed.origin, Size: tree.N, Index: parsed.index}, nil
}

func parseReceipt(text string) (*receipt, error) {
	if len(text) > receiptBytesMax {
		return nil, errors.New("the receipt is too long")
	}
	top, checkpoint, found := strings.Cut(text, "\n\n")
	lines := strings.Split(top, "\n")
	if !found || len(lines) < 3 || lines[0] != "c2sp.org/tlog-proof@v1" {
		return nil, errors.New("this is no proof")
	}
	encoded, found := strings.CutPrefix(lines[1], "extra ")
	if !found {
		return nil, errors.New("the proof has no extra data")
	}
	extra, err := decodeBase64(encoded)
	if err != nil {
		return nil, err
	}
	parsed := &receipt{checkpoint: checkpoint}
	if parsed.opening, err = parseOpening(extra); err != nil {
		return nil, err
	}
	digits, found := strings.CutPrefix(lines[2], "index ")
	if parsed.index, err = strconv.ParseInt(digits, 10, 64); err != nil || !found ||
		parsed.index < 0 || strconv.FormatInt(parsed.index, 10) != digits {
		return nil, fmt.Errorf("%q is no index", lines[2])
	}
	for _, line := range lines[3:] {
		hash, err := decodeBase64(line)
		if err != nil || len(hash) != tlog.HashSize {
			return nil, fmt.Errorf("%q is no hash", line)
		}
		parsed.hashes = append(parsed.hashes, hash)
	}
	return parsed, nil
}
