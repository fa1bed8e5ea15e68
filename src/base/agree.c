/*
 * agree.c - see agree.h.
 */
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "agree.h"

#define RF_TOKEN_LABEL	"rdma_fdw token"

bool
rf_key_make(uint8_t private_key[RF_KEY_SIZE], uint8_t public_key[RF_KEY_SIZE])
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_id(EVP_PKEY_X25519, NULL);
	EVP_PKEY   *key = NULL;
	size_t		private_size = RF_KEY_SIZE;
	size_t		public_size = RF_KEY_SIZE;
	bool		good = context != NULL && EVP_PKEY_keygen_init(context) > 0 &&
		EVP_PKEY_keygen(context, &key) > 0 &&
		EVP_PKEY_get_raw_private_key(key, private_key, &private_size) > 0 &&
		EVP_PKEY_get_raw_public_key(key, public_key, &public_size) > 0;

	EVP_PKEY_free(key);
	EVP_PKEY_CTX_free(context);
	return good;
}

bool
rf_key_identity(const uint8_t public_key[RF_KEY_SIZE], RfNodeId *node)
{
	uint8_t		hash[EVP_MAX_MD_SIZE];

	_Static_assert(sizeof(*node) == 16, "an identity is 16 bytes of a hash");
	if (EVP_Digest(public_key, RF_KEY_SIZE, hash, NULL, EVP_sha256(), NULL) <= 0)
		return false;
	memcpy(node, hash, sizeof(*node));
	return true;
}

/* The shared value that both ends compute from their own private key and the other's public one. */
static bool
exchange(const uint8_t own_private[RF_KEY_SIZE], const uint8_t other_public[RF_KEY_SIZE],
		 uint8_t shared[RF_KEY_SIZE])
{
	EVP_PKEY   *own = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, own_private, RF_KEY_SIZE);
	EVP_PKEY   *other = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, other_public,
													RF_KEY_SIZE);
	EVP_PKEY_CTX *context = own != NULL ? EVP_PKEY_CTX_new(own, NULL) : NULL;
	size_t		size = RF_KEY_SIZE;

	/* libcrypto rejects a point of low order, with which the result would be predictable */
	bool		good = context != NULL && other != NULL && EVP_PKEY_derive_init(context) > 0 &&
		EVP_PKEY_derive_set_peer(context, other) > 0 &&
		EVP_PKEY_derive(context, shared, &size) > 0 && size == RF_KEY_SIZE;

	EVP_PKEY_CTX_free(context);
	EVP_PKEY_free(other);
	EVP_PKEY_free(own);
	return good;
}

/* HKDF of RFC 5869 with the token's id as salt: one block is as long as a secret. */
bool
rf_key_agree(const uint8_t own_private[RF_KEY_SIZE], const uint8_t other_public[RF_KEY_SIZE],
			 const uint8_t token_id[RF_TOKEN_ID_SIZE], const uint8_t initiator[RF_KEY_SIZE],
			 const uint8_t acceptor[RF_KEY_SIZE], uint8_t secret[RF_TOKEN_SIZE])
{
	uint8_t		shared[RF_KEY_SIZE];
	uint8_t		extracted[RF_TOKEN_SIZE];
	uint8_t		info[sizeof(RF_TOKEN_LABEL) - 1 + 2 * RF_KEY_SIZE + 1];
	uint8_t    *end = info;
	bool		good;

	memcpy(end, RF_TOKEN_LABEL, sizeof(RF_TOKEN_LABEL) - 1);
	end += sizeof(RF_TOKEN_LABEL) - 1;
	memcpy(end, initiator, RF_KEY_SIZE);
	end += RF_KEY_SIZE;
	memcpy(end, acceptor, RF_KEY_SIZE);
	end += RF_KEY_SIZE;
	*end = 1;
	good = exchange(own_private, other_public, shared) &&
		HMAC(EVP_sha256(), token_id, RF_TOKEN_ID_SIZE, shared, sizeof(shared), extracted,
			 NULL) != NULL &&
		HMAC(EVP_sha256(), extracted, sizeof(extracted), info, sizeof(info), secret, NULL) !=
		NULL;
	OPENSSL_cleanse(shared, sizeof(shared));
	OPENSSL_cleanse(extracted, sizeof(extracted));
	return good;
}
