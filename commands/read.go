package commands

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/unpack"
	"github.com/zksh/zksh/internal/zkconn"
)

var (
	pathParam  = Param{Name: "path", Kind: Path}
	hereParam  = Param{Name: "path", Kind: Path, Here: true}
	watchParam = Param{Name: "watch", Kind: Data, Optional: true}
)

// statIf is the stat of an answer that has one only if that is wished.
func statIf(wished bool, st *zk.Stat) *render.Stat {
	if !wished {
		return nil
	}
	return (*render.Stat)(st)
}

// value is the answer of get. Its words and its cell stand for the data in the text
// and in the table.
func value(path string, data []byte, words, cell string, stat *render.Stat) render.Answer {
	g := render.Grid{Header: []string{"field", "value"}, Rows: [][]string{{"path", path}, {"data", cell}}}
	if stat != nil {
		g.Rows = append(g.Rows, stat.Table().Rows...)
	}
	return render.Answer{Words: words + "\n", Stat: stat, Grid: g,
		JSON: render.Facts{"path", path, "data", render.Data(data), "stat", stat}}
}

var getCommand = &Command{
	Name: "get", Group: "Reading", Args: "[-s] [-w] [-b] [-x] [-j] [-d] [--charset name] [-f file] [--in file] [--max-size MiB] path", OneRequest: unless("file", inFlag),
	Summary: "print a znode's data",
	Help: "If the znode has no data, get prints null. With -f, get writes the data to a file, byte for byte, and " +
		"prints nothing.\n\n" +
		"With -d, get decodes data that looks like gzip, zlib, snappy or base64, even if one format is nested inside " +
		"another. It decodes base64 only if the result is text or one of the other formats. After decoding, get " +
		"prints a note that lists the formats.\n\n" +
		"With --charset, get converts the text from the given character set, such as gbk, shift_jis, utf-16le or " +
		"windows-1252. get accepts all character sets that web browsers support.",
	Limits:   []string{"The decoded data can be at most 16 MiB."},
	Examples: []string{"get -s /app/config", "get -f config.json /app/config", "get -d --charset gbk /app/config"},
	Params:   []Param{pathParam, watchParam},
	Flags: func(fs *pflag.FlagSet) Run {
		stat := fs.BoolP("stat", "s", false, "also print the znode's stat")
		watch := fs.BoolP("watch", "w", false, "set a watch on the data")
		b64 := fs.BoolP("base64", "b", false, "print the data in base64")
		hex := fs.BoolP("hex", "x", false, "print a hex dump of the data")
		pretty := fs.BoolP("json", "j", false, "print JSON data with indentation; fail if the data is not JSON")
		file := fs.StringP("file", "f", "", "write the data to this `file`, byte for byte; - means standard output")
		decode := fs.BoolP("decode", "d", false, "decode compressed and base64 data")
		charset := fs.String("charset", "", "convert the text from the character set with this `name`")
		FlagFile(fs, "file")
		return looking(fs, func(ctx context.Context, env *Env, from reader, args []string) error {
			w, err := watchArg(env, args, 1, *watch, "get path [watch]", "get [-s] [-w] path")
			if err != nil {
				return err
			}
			charset, err := charsetNamed(*charset)
			if err != nil {
				return err
			}
			data, st, err := from.Get(ctx, args[0], w)
			if err == nil && *decode {
				data, err = unpacked(env, args[0], data)
			}
			if err == nil && charset != nil && data != nil {
				data, err = charset.NewDecoder().Bytes(data)
			}
			if err != nil {
				return err
			}
			if fs.Changed("file") {
				if *file == "-" {
					return env.Screen.Print(render.Answer{Words: string(data), JSON: render.Data(data)})
				}
				return env.answer(SaveFile(*file, data), done("get", args[0]))
			}
			cell := string(data)
			if data == nil {
				cell = "null"
			}
			words := cell
			switch {
			case *pretty && !json.Valid(data):
				return fmt.Errorf("the data of %s is not valid JSON; omit -j to print it as it is", args[0])
			case *pretty:
				words = reform(cell, indent)
			case *hex:
				words = hexDump([]byte(cell))
			case *b64:
				words = base64.StdEncoding.EncodeToString([]byte(cell))
				if data != nil {
					cell = words
				}
			}
			return env.Screen.Print(value(args[0], data, words, cell, statIf(*stat, st)))
		})
	},
}

// unpacked takes off what data is packed in.
func unpacked(env *Env, path string, data []byte) ([]byte, error) {
	plain, forms, err := unpack.All(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; to print the data as it is, omit -d", path, err)
	}
	if len(forms) > 0 {
		env.Screen.Note("decoded: " + strings.Join(forms, ", "))
	}
	return plain, nil
}

// charsetNamed finds a character set; without a name it is none.
func charsetNamed(name string) (encoding.Encoding, error) {
	if name == "" {
		return nil, nil
	}
	e, err := htmlindex.Get(name)
	if err != nil {
		return nil, Misuse("--charset: unknown character set %q; examples are gbk, big5, shift_jis, euc-kr, utf-16le and windows-1252", name)
	}
	return e, nil
}

var statCommand = &Command{
	Name: "stat", Group: "Reading", Args: "[-w] [-h] [--in file] [--max-size MiB] path", OneRequest: unless(inFlag),
	Summary: "print a znode's stat",
	Help: "With -w, stat also sets a watch. If the znode does not exist, the watch reports its creation.\n\n" +
		"With --in, stat reads a snapshot and also prints whether the znode is a container or has a time to live. " +
		"Servers do not report this information.",
	Examples: []string{"stat /app", "stat -h /app/config"},
	Params:   []Param{hereParam, watchParam},
	Flags: func(fs *pflag.FlagSet) Run {
		watch := fs.BoolP("watch", "w", false, "set a watch on the znode, or on its creation")
		human := fs.BoolP("human", "h", false, "print times in ISO 8601 format, with their age according to this machine's clock")
		return looking(fs, func(ctx context.Context, env *Env, from reader, args []string) error {
			w, err := watchArg(env, args, 1, *watch, "stat path [watch]", "stat [-w] path")
			if err != nil {
				return err
			}
			st, err := from.Exists(ctx, args[0], w)
			if err != nil {
				return err
			}
			if k, kept := from.(*keptReader); kept {
				return k.printStat(env, args[0], *human)
			}
			if *human {
				return env.Screen.Print((*render.Stat)(st).Human(time.Now()))
			}
			return env.Screen.Print((*render.Stat)(st))
		})
	},
}

var existsCommand = &Command{
	Name: "exists", Group: "Reading", Args: "[--in file] [--max-size MiB] path", OneRequest: unless(inFlag),
	Summary: "check whether a znode exists, and set the exit status",
	Help: "The exit status is 0 if the znode exists and 1 if it does not. A znode that you are not permitted to read still " +
		"counts as existing.",
	Examples: []string{"exists /app/ready", "exists /app/ready --in snapshot.a3f"},
	Params:   []Param{pathParam},
	Flags: func(fs *pflag.FlagSet) Run {
		return looking(fs, func(ctx context.Context, env *Env, from reader, args []string) error {
			_, err := from.Exists(ctx, args[0], false)
			err = ignore(err, zkconn.NoAuth) // it is asked for only where there is a znode
			answer := render.Answer{JSON: render.Facts{"path", args[0], "exists", err == nil}}
			if failed := env.answer(ignore(err, zkconn.NoNode), answer); failed != nil || err == nil {
				return failed
			}
			return &StatusError{Status: StatusFailed}
		})
	},
}
