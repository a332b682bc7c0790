"""A recommender whose products sell out and whose user's tastes drift."""

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from jaxtyping import Float, Float32, Int
from numpy.random import Generator
from numpy.typing import ArrayLike

from sas_gym._arguments import check_integer, check_number
from sas_gym._types import Floats, Ints, NDArray
from sas_gym.action_sets import Independent
from sas_gym.tasks._task import Actions, Rewards, States, Task, Terminations


class Recommender(Task):
    """Recommend five products to one user, each from what is in stock.

    ## Description
    A shop shows a random user one product after the other. Every product belongs to a
    topic, and the user buys it with a probability that grows with their interest in the
    topic. A purchase earns the product's profit and pulls the user's interest to a
    complementary topic, as a camera makes one want lenses; a refusal tires the user of
    the topic. So a recommendation earns now, and decides what can be earned later.

    Product j has a topic, a profit, an appeal, a complementary topic and a pull. The
    user's context is an interest x_k in [0, 1] for each topic k, and an attention.

    * Product j is bought with probability appeal_j x_k, where k is its topic.
    * Bought: x moves to x + pull_j (e_c - x), where e_c is 1 for the complementary
      topic c of product j and 0 for the others.
    * Refused: x_k falls to (1 - `fatigue`) x_k, and the other interests stay.

    Few products are worth recommending, and which ones depends on the user: profits
    are heavy-tailed and tastes sharp. That makes the return depend on what is in stock.
    The user's interests never grow but through purchases, so the profitable topics have
    to be reached through products that lead there.

    ## Action Space
    `Discrete(100)`: the product to recommend. The same one may be recommended again.

    ## Action Sets
    Each product is in stock with probability `availability`, independently of the
    others, of the context and of the past; never none.

    ## Observation Space
    The context, `Box(0.0, 1.0, (11,), float32)`, beside the mask: the interest in each
    of the 10 topics, then the attention, which is the share of the recommendations that
    are left.

    ## Rewards
    The profit of the product if it is bought, else 0. In the topic of rank t, the
    product of rank r, both counted from 0, has the profit
    `max_profit` / ((1 + t)^`topic_decay` (1 + r)^`product_decay`). No reward is below 0
    or above `max_profit`.

    ## Starting State
    A new user: x_k = (u_k / max u)^`taste_sharpness` with u_k uniform on [0, 1),
    independent. So the favourite topic has interest 1. The attention is 1.

    ## Episode End
    Terminated after 5 recommendations, when the attention is 0. The attention is part
    of the observation, so this is no truncation: nothing is left to be earned.

    ## Information
    * `action_mask`: the action set as int8, 1 where an action is available.
    * In vector form also `_action_mask` and, when an episode has ended, `final_obs`,
      `_final_obs`, `final_info` and `_final_info`: see `SASVectorEnv`.

    ## Arguments
    * `availability` (default 0.8): one probability, or one per product.
    * `num_products` (100), `num_topics` (10), `num_recommendations` (5).
    * `catalogue_seed` (0): seed of the products, which it determines entirely.
      The topics get ranks, and the products topics and ranks in them, at random, with
      equally many products per topic (or one more). The complementary topic is uniform
      over the other topics.
    * `max_profit` (10), `topic_decay` (0.7), `product_decay` (2): the profits. A decay
      of d gives a Pareto tail of index 1 / d.
    * `min_appeal` (0.9), `min_pull` (0.9): appeal and pull are uniform from here to 1.
    * `fatigue` (0.2): share of the interest in a topic that a refusal takes.
    * `taste_sharpness` (16): how much the favourite topic stands out.

    ## Optimal Value
    No closed form. Mean returns with default arguments, undiscounted, each with a
    standard error below 0.03:

    * random, uniformly over what is in stock: 0.40
    * ranking, the best one found that is the same for all contexts: 3.61
    * myopic, the largest `expected_profit` in stock: 13.34
    * far-sighted, by fitted backward induction: 19.55

    The last is a lower bound of the optimal value; `sas_gym.planning.optimal_return`
    puts that at 19.54, with an error of 0.06.

    ## References
    Chandak, Theocharous, Metevier and Thomas (2020), "Reinforcement Learning When All
    Actions are Not Always Available", AAAI, give the outline: 100 products, 5
    recommendations, a real-valued context. The model of the user is ours. Theocharous,
    Thomas and Ghavamzadeh (2015), "Ad Recommendation Systems for Life-Time Value
    Optimization", WWW Companion, say why a recommender should look ahead.

    ## Version History
    * v0: First release. Without `on_unavailable="noop"`, which drew a new action set at
      no cost and so beat the optimum: unavailable actions raise or are replaced.
      `Markov` needs an action that is always there: no set is drawn again.
    """

    behaviour_version: ClassVar[int] = 1

    always_ends = True

    def __init__(
        self,
        availability: ArrayLike = 0.8,
        *,
        num_products: int = 100,
        num_topics: int = 10,
        num_recommendations: int = 5,
        catalogue_seed: int = 0,
        max_profit: float = 10.0,
        topic_decay: float = 0.7,
        product_decay: float = 2.0,
        min_appeal: float = 0.9,
        min_pull: float = 0.9,
        fatigue: float = 0.2,
        taste_sharpness: float = 16.0,
    ) -> None:
        check_integer("num_topics", num_topics, least=2)
        check_integer("num_products", num_products, least=num_topics)
        check_integer("num_recommendations", num_recommendations, least=1)
        check_integer("catalogue_seed", catalogue_seed, least=0)
        check_number("max_profit", max_profit)
        check_number("topic_decay", topic_decay)
        check_number("product_decay", product_decay)
        check_number("min_appeal", min_appeal, most=1)
        check_number("min_pull", min_pull, most=1)
        check_number("fatigue", fatigue, most=1)
        check_number("taste_sharpness", taste_sharpness)
        self.num_actions = num_products
        self.action_sets = Independent(availability).fit(self)
        self.num_topics = num_topics
        self.num_recommendations = num_recommendations
        self.fatigue = fatigue
        self.taste_sharpness = taste_sharpness
        self.observation_space = gym.spaces.Box(0.0, 1.0, (num_topics + 1,), np.float32)

        # Only `random` is drawn from: NumPy may change how it permutes.
        rng = np.random.default_rng(catalogue_seed)
        place, complement, appeal, pull = rng.random((4, num_products))
        rank, topic = np.divmod(place.argsort(), num_topics)
        topic_rank = rng.random(num_topics).argsort()[topic]
        decay = (1.0 + topic_rank) ** topic_decay * (1.0 + rank) ** product_decay
        distance = 1 + (complement * (num_topics - 1)).astype(np.int64)
        self.topic: Ints = topic
        self.complement: Ints = (topic + distance) % num_topics
        self.profit: Floats = max_profit / decay
        self.appeal: Floats = min_appeal + (1 - min_appeal) * appeal
        self.pull: Floats = min_pull + (1 - min_pull) * pull
        # Each topic as a context: 1 for itself, 0 for the others and the attention.
        self._unit_context = np.eye(num_topics, num_topics + 1)
        # The attention after one more recommendation, by the number that is left.
        counts = np.arange(num_recommendations + 1)
        self._attention_left = np.maximum(counts - 1, 0) / num_recommendations
        # What a refusal of each topic leaves of a context.
        self._left_by_refusal = 1 - fatigue * self._unit_context

    @property
    def action_names(self) -> Sequence[str]:
        """Names of the actions."""
        return [f"product {product}" for product in range(self.num_actions)]

    def describe(self, state: Any) -> str:
        """Return a context in words."""
        favourite = int(np.argmax(state[:-1]))
        left = round(float(state[-1]) * self.num_recommendations)
        return f"topic {favourite} liked most, {left} recommendations left"

    def reset(self, num_envs: int, rng: Generator) -> States:
        """Draw new users, each with a favourite topic."""
        taste = rng.random((num_envs, self.num_topics))
        taste /= taste.max(axis=1, keepdims=True)
        state = np.ones((num_envs, self.num_topics + 1))
        state[:, :-1] = taste**self.taste_sharpness
        return state

    def transition(
        self, state: States, action: Actions, rng: Generator
    ) -> tuple[States, Rewards, Terminations]:
        """Recommend a product, and let the user decide."""
        bought = rng.random(len(state)) < self.purchase_probability(state, action)
        reward: Floats = self.profit[action] * bought
        next_state = self.drift(state, action, bought)
        return next_state, reward, next_state[:, -1] == 0

    def observe(self, state: States) -> Float32[NDArray[Any], "N X"]:
        """Return the context in single precision."""
        return state.astype(np.float32)

    def purchase_probability(
        self, state: Float[NDArray[Any], "N X"], product: Int[Ints, " N"] | None = None
    ) -> Float[NDArray[Any], "N *A"]:
        """Return the probability that a product is bought if it is recommended.

        Args:
            state: The contexts.
            product: One product per context; all of them by default.

        Returns:
            The probability of each context's product or, by default, a row of the
            probabilities of all products per context.
        """
        row = np.arange(len(state))
        if product is None:
            row, product = row[:, None], np.arange(self.num_actions)
        probability: Floats = self.appeal[product] * state[row, self.topic[product]]
        return probability

    def expected_profit(
        self, state: Float[NDArray[Any], "N X"]
    ) -> Float[NDArray[Any], "N A"]:
        """Return the mean profit of recommending each product now.

        A myopic policy recommends the available product with the largest one.
        """
        return self.purchase_probability(state) * self.profit

    def product_features(self) -> Float[NDArray[Any], "A F"]:
        """Return the features of the products, one row per product.

        Its profit as a share of the largest, its appeal and its pull; then a 1 for the
        topic that it belongs to, and a 1 for the topic that it leads to.
        """
        topics = np.arange(self.num_topics)
        largest = max(self.profit.max(), np.finfo(float).tiny)
        numbers = np.stack([self.profit / largest, self.appeal, self.pull], axis=1)
        is_topic = self.topic[:, None] == topics
        is_complement = self.complement[:, None] == topics
        return np.concatenate([numbers, is_topic, is_complement], axis=1)

    def drift(
        self, state: Float[NDArray[Any], "*#N X"], product: ArrayLike, bought: ArrayLike
    ) -> Float[NDArray[Any], "*N X"]:
        """Return the contexts to which recommendations lead: a deterministic function.

        The arguments are broadcast: `drift(state[:, None], np.arange(A), True)` is
        where each of N contexts goes if each of A products is bought.

        Args:
            state: The contexts.
            product: The product that was recommended in each.
            bought: Whether it was bought.
        """
        product, bought = np.asarray(product), np.asarray(bought)[..., None]
        target = self._unit_context.take(self.complement[product], axis=0)
        pulled = state + self.pull[product][..., None] * (target - state)
        tired = state * self._left_by_refusal.take(self.topic[product], axis=0)
        # With the attention, too, as if it were an interest: it is replaced at once.
        drifted: Floats = np.where(bought, pulled, tired)
        drifted[..., -1] = self._attention_after(state[..., -1])
        return drifted

    def _attention_after(
        self, attention: Float[NDArray[Any], "*N"]
    ) -> Float[NDArray[Any], "*N"]:
        """Return the attention that is left after one more recommendation."""
        # Counted in whole recommendations, so that no rounding error adds up.
        count = np.rint(attention * self.num_recommendations).astype(np.intp)
        remaining: Floats = self._attention_left.take(count)
        return remaining
