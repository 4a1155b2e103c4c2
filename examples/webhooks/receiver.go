// A webhook receiver with the standard library; docs/webhooks.md has the rules that it follows.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const tolerance = 5 * time.Minute

func keyBytes(signingKey string) ([]byte, error) {
	if !strings.HasPrefix(signingKey, "whsec_") {
		return []byte(signingKey), nil
	}
	encoded := strings.TrimPrefix(signingKey, "whsec_")
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
}

func isGenuine(key, body []byte, header http.Header) bool {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return false
	}
	if age := time.Since(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, given := range strings.Fields(header.Get("webhook-signature")) {
		if hmac.Equal([]byte(given), []byte(expected)) {
			return true
		}
	}
	return false
}

func main() {
	key, err := keyBytes(os.Getenv("SIGNING_KEY"))
	if err != nil || len(key) == 0 {
		log.Fatal("SIGNING_KEY is empty or not base64")
	}
	port := os.Getenv("PORT")
	if port == "" {
		port = "9000"
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var event struct {
			Type string `json:"type"`
		}
		if err != nil || !isGenuine(key, body, r.Header) || json.Unmarshal(body, &event) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		// Store it under its webhook-id, unless it is stored already; process it after answering.
		fmt.Println(r.Header.Get("webhook-id"), event.Type)
		w.WriteHeader(http.StatusNoContent)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, nil))
}
