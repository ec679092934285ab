package pack

// maxNames and maxShared bound the texts that one Names shares, and their bytes. Others
// are copied, which costs memory and nothing else.
const (
	maxNames  = 1 << 16
	maxShared = 256
)

// Names keeps one copy of each text that few values fill. It is owned by one
// goroutine. The zero value is empty.
type Names struct {
	all     map[string]string
	recent  [64]string // what is found without a search
	scratch []byte
}

// Name reads a string of at most limit bytes, of which one copy serves all.
func (r *Reader) Name(names *Names, limit int) string {
	if r.err != nil {
		return ""
	}
	if b, n := text(r.Ahead()); n > 0 && len(b) <= limit {
		s := names.share(b)
		r.Pass(n)
		return s
	}
	b := r.Bytes(names.scratch, limit)
	if r.err != nil {
		return ""
	}
	names.scratch = b
	return names.share(b)
}

func (n *Names) share(b []byte) string {
	if len(b) == 0 || len(b) > maxShared {
		return string(b)
	}
	recent := &n.recent[(len(b)+int(b[0])*5+int(b[len(b)-1])*11)%len(n.recent)]
	if *recent == string(b) {
		return *recent
	}
	s, ok := n.all[string(b)]
	if !ok {
		s = string(b)
		n.add(s)
	}
	*recent = s
	return s
}

func (n *Names) add(s string) {
	if n.all == nil {
		n.all = make(map[string]string)
	}
	if len(n.all) < maxNames {
		n.all[s] = s
	}
}
